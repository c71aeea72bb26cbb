package spawn

import (
	"context"
	"fmt"

	"lazaret.dev/lazaret/protocol/handoff"
	"lazaret.dev/lazaret/protocol/isolation"
	"lazaret.dev/lazaret/protocol/wire"
)

// ending is the answer to a question that comes too late.
const ending = "the sandbox is just ending: ask again"

// Ask asks the supervisor, nil being one that serves no more, about ignored
// paths. Somebody must be receiving.
func (s *Supervisor) Ask(ctx context.Context, req isolation.Request) isolation.Answer {
	if s == nil {
		return isolation.Answer{Error: ending}
	}
	answer := make(chan isolation.Answer, 1) // a question has one answer
	if err := s.ask(req, answer); err != nil {
		return isolation.Answer{Error: err.Error()}
	}
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return isolation.Answer{Error: ctx.Err().Error()}
	}
}

// ask sends a question. Its order among the others is that of the answers.
func (s *Supervisor) ask(req isolation.Request, answer chan<- isolation.Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		answer <- isolation.Answer{Error: ending}
		return nil
	}
	if err := s.seq.Send(handoff.KindAsk, req); err != nil {
		return err
	}
	s.asked = append(s.asked, answer)
	return nil
}

func (s *Supervisor) answered(a isolation.Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return fmt.Errorf("%w: an answer to no question", wire.ErrUnexpected)
	}
	s.asked[0] <- a
	s.asked = s.asked[1:]
	return nil
}

// unanswered gives up on all questions.
func (s *Supervisor) unanswered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, answer := range s.asked {
		answer <- isolation.Answer{Error: ending}
	}
	s.asked = nil
}
