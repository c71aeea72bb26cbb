package image_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"lazaret.dev/lazaret/host/internal/image"
	"lazaret.dev/lazaret/host/internal/unpack"
	"lazaret.dev/lazaret/host/internal/unpack/unpacktest"
)

// prepareEnv makes the test binary a preparer: a second process.
const prepareEnv = "LAZARET_IMAGETEST_PREPARE"

type prepareRequest struct {
	Ref, DataRoot string
	Single        bool // id mapping
}

func TestMain(m *testing.M) {
	if status, is := unpacktest.Main(); is {
		os.Exit(status)
	}
	if text := os.Getenv(prepareEnv); text != "" {
		os.Unsetenv(prepareEnv)
		os.Exit(prepareMain(text))
	}
	os.Exit(m.Run())
}

func prepareMain(text string) int {
	var req prepareRequest
	if err := json.Unmarshal([]byte(text), &req); err != nil {
		fmt.Println(err)
		return 2
	}
	mapping := unpack.MappingFull
	if req.Single {
		mapping = unpack.MappingSingle
	}
	p, err := image.Prepare(context.Background(), image.Options{
		Ref: req.Ref, DataRoot: req.DataRoot, Platform: "linux/amd64", Mapping: mapping, Runner: &unpacktest.Runner{Single: req.Single},
		Progress: func(p image.Progress) { fmt.Println("progress", p.Phase, p.Layer) },
	})
	if err != nil {
		var hint interface{ Hint() string }
		fmt.Println("error", err, errors.As(err, &hint) && hint.Hint() != "")
		return 1
	}
	fmt.Println("prepared", p.ID)
	return 0
}
