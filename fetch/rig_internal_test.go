package fetch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func toText(v any) string { return fmt.Sprint(v) }

// rig is a client whose connections all end at one server, whatever address they
// are for. It remembers the addresses.
type rig struct {
	c     *client
	names *namesOf
	by    *quiet

	mu      sync.Mutex
	dialled []netip.AddrPort
	seen    []*http.Request
}

// publicAddr is where every name of a rig leads unless it says otherwise.
const publicAddr = "93.184.215.14"

// newRig serves handler under TLS for every name of the decision table.
func newRig(t *testing.T, opts Options, handler http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{names: &namesOf{answers: map[string][][]string{}}, by: &quiet{Context: context.Background()}}
	for _, name := range []string{"example.com", "a.example.com", "evil.example.com", "pay.example.com", "partner.org", "api.vendor.net"} {
		r.names.answers[name] = [][]string{{publicAddr}}
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, req.Clone(context.Background()))
		r.mu.Unlock()
		handler(w, req)
	}))
	cert, pool := certificate(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	opts.RootCAs, opts.Resolver = pool, r.names
	c, err := newClient(&opts)
	require.NoError(t, err)
	c.dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		r.mu.Lock()
		r.dialled = append(r.dialled, to)
		r.mu.Unlock()
		if !c.policy.mayConnect(to.Addr()) {
			t.Errorf("a connection to %s", to)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	r.c = c
	return r
}

func (r *rig) fetch(url string) (*Result, error) { return r.c.fetch(r.by, Input{URL: url}) }

// certificate makes a self-signed certificate for the names of the tests.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"example.com", "*.example.com", "partner.org", "api.vendor.net"}, IPAddresses: []net.IP{net.IPv4(8, 8, 8, 8)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}
