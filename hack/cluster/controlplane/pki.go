package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 365 * 24 * time.Hour

// pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

// authority signs certificates.
type authority struct {
	pair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

// credentials is all that the components need to know and trust each other.
type credentials struct {
	ca                              *authority
	serving, admin, controllers     pair
	caFile, saKeyFile               string
	servingCertFile, servingKeyFile string
}

// loadCredentials reads the authority and the service-account key from the folder, or makes them, so that kubeconfigs
// and tokens outlive a restart; the certificates are issued anew each time.
func loadCredentials(dir string, now time.Time) (*credentials, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the certificates: %w", err)
	}
	ca, err := loadAuthority(dir, now)
	if err != nil {
		return nil, err
	}
	c := &credentials{
		ca: ca, caFile: filepath.Join(dir, "ca.crt"), saKeyFile: filepath.Join(dir, "sa.key"),
		servingCertFile: filepath.Join(dir, "apiserver.crt"), servingKeyFile: filepath.Join(dir, "apiserver.key"),
	}
	if _, err := os.Stat(c.saKeyFile); errors.Is(err, os.ErrNotExist) {
		_, key, err := newKey()
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(c.saKeyFile, key, 0o600); err != nil {
			return nil, fmt.Errorf("write the service-account key: %w", err)
		}
	}
	if c.serving, err = ca.issue(servingTemplate(), now); err != nil {
		return nil, err
	}
	if c.admin, err = ca.issue(clientTemplate("admin", "system:masters"), now); err != nil {
		return nil, err
	}
	if c.controllers, err = ca.issue(clientTemplate("system:kube-controller-manager"), now); err != nil {
		return nil, err
	}
	return c, writePair(c.servingCertFile, c.servingKeyFile, c.serving)
}

func loadAuthority(dir string, now time.Time) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	cert, err := os.ReadFile(certFile)
	if errors.Is(err, os.ErrNotExist) {
		return newAuthority(certFile, keyFile, now)
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	a, err := parseAuthority(pair{cert, key})
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority %s: %w; remove the state folder to start afresh", certFile, err)
	}
	if now.Add(24 * time.Hour).After(a.parsed.NotAfter) {
		return nil, fmt.Errorf("the certificate authority %s expires at %s; remove the state folder to start afresh", certFile, a.parsed.NotAfter)
	}
	return a, nil
}

func newAuthority(certFile, keyFile string, now time.Time) (*authority, error) {
	signer, key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "timeout-operator local control plane"},
		IsCA:    true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := sign(template, template, &signer.PublicKey, signer, now)
	if err != nil {
		return nil, err
	}
	if err := writePair(certFile, keyFile, pair{cert, key}); err != nil {
		return nil, err
	}
	return parseAuthority(pair{cert, key})
}

func parseAuthority(p pair) (*authority, error) {
	certBlock, _ := pem.Decode(p.cert)
	keyBlock, _ := pem.Decode(p.key)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("not in PEM")
	}
	parsed, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	signer, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	return &authority{pair: p, parsed: parsed, signer: signer}, nil
}

func (a *authority) issue(template *x509.Certificate, now time.Time) (pair, error) {
	signer, key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	cert, err := sign(template, a.parsed, &signer.PublicKey, a.signer, now)
	return pair{cert: cert, key: key}, err
}

func servingTemplate() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
	}
}

// clientTemplate names a user and its groups the way the API server reads them from a certificate.
func clientTemplate(user string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(validity)
	template.KeyUsage |= x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func writePair(certFile, keyFile string, p pair) error {
	if err := os.WriteFile(keyFile, p.key, 0o600); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	if err := os.WriteFile(certFile, p.cert, 0o644); err != nil {
		return fmt.Errorf("write a certificate: %w", err)
	}
	return nil
}
