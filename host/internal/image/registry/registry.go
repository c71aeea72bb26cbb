// Package registry talks to image registries: it finds credentials, asks for
// manifests and blobs, and names what goes wrong.
//
// It must not store anything, and it treats all that a registry sends as
// hostile: what is read into memory is bounded, plain http is for this machine
// only, and redirects do not lead to local addresses. Digests are its callers'
// to verify. It runs in the Host Coordinator and in image commands.
package registry

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
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"lazaret.dev/lazaret/host/internal/image/fault"
)

// MaxManifest bounds manifests, indexes and configurations.
const MaxManifest = 4 << 20

// Client talks to one repository. Close it.
type Client struct {
	repo name.Repository
	base *http.Transport
	rt   http.RoundTripper // authenticates
}

// Dial finds out how the registry wants to be talked to, and logs in. What is
// wrong with the credentials that were found goes to warn, once.
func Dial(ctx context.Context, repo name.Repository, warn func(text string)) (*Client, error) {
	auth, err := keychain{warn}.resolve(ctx, repo.RegistryStr())
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
	return &Client{repo: repo, base: base, rt: rt}, nil
}

// Manifest returns what a reference of the repository names.
func (c *Client) Manifest(ctx context.Context, ref name.Reference) (v1.Descriptor, []byte, error) {
	d, err := remote.Get(ref, remote.WithTransport(c.rt), remote.WithContext(ctx))
	if err != nil {
		return v1.Descriptor{}, nil, registryError(ctx, ref.Name(), err)
	}
	return d.Descriptor, d.Manifest, nil
}

// ManifestByDigest returns a manifest of the repository.
func (c *Client) ManifestByDigest(ctx context.Context, digest string) ([]byte, error) {
	_, raw, err := c.Manifest(ctx, c.repo.Digest(digest))
	return raw, err
}

// Small returns a blob of at most size bytes.
func (c *Client) Small(ctx context.Context, digest string, size int64) ([]byte, error) {
	body, _, err := c.Blob(ctx, digest, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, min(size, MaxManifest)+1))
	if err != nil {
		return nil, registryError(ctx, c.repo.String(), err)
	}
	return raw, nil
}

// Close releases the connections.
func (c *Client) Close() error {
	c.base.CloseIdleConnections()
	return nil
}

// Blob asks for a blob from offset on. The stream that comes starts there, or
// at 0; start says which.
func (c *Client) Blob(ctx context.Context, digest string, offset int64) (body io.ReadCloser, start int64, err error) {
	url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", c.repo.Scheme(), c.repo.RegistryStr(), c.repo.RepositoryStr(), digest)
	req, err := http.NewRequestWithContext(context.WithValue(ctx, unbounded{}, true), http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for blob: %w", err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	resp, err := (&http.Client{Transport: c.rt, CheckRedirect: checkRedirect}).Do(req)
	if err != nil {
		return nil, 0, registryError(ctx, c.repo.String(), err)
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent && offset > 0 &&
		strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(offset, 10)+"-"):
		return resp.Body, offset, nil
	case resp.StatusCode == http.StatusOK:
		return resp.Body, 0, nil
	case offset > 0 && (resp.StatusCode == http.StatusRequestedRangeNotSatisfiable || resp.StatusCode == http.StatusPartialContent):
		_ = resp.Body.Close()
		return c.Blob(ctx, digest, 0)
	}
	defer resp.Body.Close()
	return nil, 0, registryError(ctx, c.repo.String(), transport.CheckError(resp, http.StatusOK))
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
	if resp.ContentLength > MaxManifest {
		_ = resp.Body.Close()
		return nil, fault.BadImage("a response of %d bytes", resp.ContentLength)
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: MaxManifest}
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
		return n, fault.BadImage("a response of more than %d bytes", MaxManifest)
	}
	return n, err
}

// registryError names what went wrong between us and a registry.
func registryError(ctx context.Context, what string, err error) error {
	var own *fault.Error
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
			return &fault.Error{Code: fault.NotFound, Message: "no such image in the registry: " + what, Fix: "check its name and tag", Err: printableError(err)}
		case http.StatusUnauthorized, http.StatusForbidden:
			return &fault.Error{
				Code: fault.Auth, Message: "registry refuses " + what + ": it does not exist, or the credentials for it are missing, wrong or expired",
				Fix: "check the name, or log in with: docker login " + host, Err: printableError(err),
			}
		}
		return &fault.Error{Code: fault.Unreachable, Message: "registry failed for " + what, Fix: "try again later", Err: printableError(err)}
	}
	return &fault.Error{
		Temporary: true,
		Code:      fault.Unreachable, Message: "cannot reach the registry for " + what,
		Fix: "check the network; an image that has been prepared before starts offline", Err: printableError(err),
	}
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
