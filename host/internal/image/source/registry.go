package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// registry is the backend of one repository.
type registry struct {
	repo  name.Repository
	base  *http.Transport
	rt    http.RoundTripper // authenticates
	store *Store
}

func resolveRegistry(ctx context.Context, ref Ref, o Options) (*Image, error) {
	r, err := dial(ctx, ref.remote.Context(), o)
	if err != nil {
		return nil, err
	}
	im, err := r.resolve(ctx, ref, o.Platform)
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return im, nil
}

// dial finds out how the registry wants to be talked to, and logs in.
func dial(ctx context.Context, repo name.Repository, o Options) (*registry, error) {
	auth, err := keychain{o.Warn}.resolve(ctx, repo.RegistryStr())
	if err != nil {
		return nil, err
	}
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 20 * time.Second}).DialContext,
		TLSHandshakeTimeout:   20 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}
	retry := transport.NewRetry(&guard{base},
		transport.WithRetryBackoff(transport.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Steps: 3}),
		transport.WithRetryStatusCodes(http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout))
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, transport.NewUserAgent(retry, "lazaret"), []string{repo.Scope(transport.PullScope)})
	if err != nil {
		base.CloseIdleConnections()
		return nil, registryError(ctx, repo.String(), err)
	}
	return &registry{repo: repo, base: base, rt: rt, store: o.Store}, nil
}

func (r *registry) resolve(ctx context.Context, ref Ref, want Platform) (*Image, error) {
	d, err := remote.Get(ref.remote, remote.WithTransport(r.rt), remote.WithContext(ctx))
	if err != nil {
		return nil, registryError(ctx, ref.Text, err)
	}
	res := &resolver{src: r, want: want}
	return res.image(ctx, d.Descriptor, d.Manifest)
}

// Close implements backend.
func (r *registry) Close() error {
	r.base.CloseIdleConnections()
	return nil
}

// blob implements backend. Manifests and configurations have addresses of their
// own kind.
func (r *registry) blob(ctx context.Context, d descriptor) ([]byte, error) {
	if !d.MediaType.IsConfig() {
		m, err := remote.Get(r.repo.Digest(d.Digest.String()), remote.WithTransport(r.rt), remote.WithContext(ctx))
		if err != nil {
			return nil, registryError(ctx, r.repo.String(), err)
		}
		return m.Manifest, nil
	}
	body, _, err := r.get(ctx, d.Digest.String(), 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, d.Size+1))
	if err != nil {
		return nil, registryError(ctx, r.repo.String(), err)
	}
	return raw, nil
}

// layer implements backend.
func (r *registry) layer(ctx context.Context, _ int, l Layer, progress func(done, total int64)) (Blob, error) {
	fetch := func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
		return r.get(ctx, l.Digest, offset)
	}
	f, err := r.store.Get(ctx, l.Digest, l.Size, fetch, progress)
	if err != nil {
		return Blob{}, err
	}
	return Blob{File: f, Size: l.Size}, nil
}

// get asks for a blob from offset on.
func (r *registry) get(ctx context.Context, digest string, offset int64) (io.ReadCloser, int64, error) {
	url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", r.repo.Scheme(), r.repo.RegistryStr(), r.repo.RepositoryStr(), digest)
	req, err := http.NewRequestWithContext(context.WithValue(ctx, unbounded{}, true), http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for blob: %w", err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	resp, err := (&http.Client{Transport: r.rt, CheckRedirect: checkRedirect}).Do(req)
	if err != nil {
		return nil, 0, registryError(ctx, r.repo.String(), err)
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent && offset > 0 &&
		strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(offset, 10)+"-"):
		return resp.Body, offset, nil
	case resp.StatusCode == http.StatusOK:
		return resp.Body, 0, nil
	case offset > 0 && (resp.StatusCode == http.StatusRequestedRangeNotSatisfiable || resp.StatusCode == http.StatusPartialContent):
		_ = resp.Body.Close()
		return r.get(ctx, digest, 0)
	}
	defer resp.Body.Close()
	return nil, 0, registryError(ctx, r.repo.String(), transport.CheckError(resp, http.StatusOK))
}

// checkRedirect keeps a registry from sending us to addresses that it could not
// reach itself: those of this machine and its networks.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	host := req.URL.Hostname()
	if host == via[0].URL.Hostname() {
		return nil
	}
	if ip, err := netip.ParseAddr(host); (err == nil && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())) || host == "localhost" {
		return fmt.Errorf("registry redirects to the local address %s", host)
	}
	return nil
}

// unbounded is the context key of requests whose response is a layer.
type unbounded struct{}

// guard refuses plain http but for this machine, and bounds every response that
// is no layer: the client reads those into memory.
type guard struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !loopback(req.URL.Hostname()) {
		return nil, fmt.Errorf("plain http to %s is refused", req.URL.Hostname())
	}
	resp, err := g.next.RoundTrip(req)
	if err != nil || req.Context().Value(unbounded{}) != nil {
		return resp, err
	}
	if resp.ContentLength > maxManifest {
		_ = resp.Body.Close()
		return nil, malformed("a response of %d bytes", resp.ContentLength)
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxManifest}
	return resp, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, malformed("a response of more than %d bytes", maxManifest)
	}
	return n, err
}

// registryError names what went wrong between us and a registry.
func registryError(ctx context.Context, what string, err error) error {
	var own *Error
	var te *transport.Error
	switch {
	case err == nil:
		return fmt.Errorf("registry sent an unexpected answer for %s", what)
	case ctx.Err() != nil:
		return errors.Join(fmt.Errorf("ask registry for %s: %w", what, context.Cause(ctx)), err)
	case errors.As(err, &own):
		return own
	case errors.As(err, &te):
		host, _, _ := strings.Cut(what, "/")
		switch te.StatusCode {
		case http.StatusNotFound:
			return &Error{Code: CodeNotFound, Message: "no such image in the registry: " + what, Fix: "check its name and tag", Err: printableError(err)}
		case http.StatusUnauthorized, http.StatusForbidden:
			return &Error{
				Code: CodeAuth, Message: "registry refuses " + what + ": it does not exist, or the credentials for it are missing, wrong or expired",
				Fix: "check the name, or log in with: docker login " + host, Err: printableError(err),
			}
		}
		return &Error{Code: CodeUnreachable, Message: "registry failed for " + what, Fix: "try again later", Err: printableError(err)}
	}
	return &transient{&Error{
		Code: CodeUnreachable, Message: "cannot reach the registry for " + what,
		Fix: "check the network; an image that has been prepared before starts offline", Err: printableError(err),
	}}
}

// printableError keeps a registry's text from reaching a terminal as it is.
func printableError(err error) error {
	text := strconv.QuoteToASCII(err.Error())
	if len(text) > 1000 {
		text = text[:1000]
	}
	return &saidBy{text: strings.ReplaceAll(strings.Trim(text, `"`), `\"`, `"`), err: err}
}

type saidBy struct {
	text string
	err  error
}

func (s *saidBy) Error() string { return s.text }
func (s *saidBy) Unwrap() error { return s.err }
