package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// With these flags it serves over TLS, for clients with a certificate of the authority that show the token in every stream. It
// prints the identity of the client:
//
//	identity URI
var (
	certificate = flag.String("cert", "", "the server's certificate (PEM)")
	key         = flag.String("key", "", "its private key (PEM)")
	authority   = flag.String("ca", "", "the authority of clients (PEM)")
	token       = flag.String("token", "", "a file with the token of clients")
)

// secured returns the server options for the flags.
func secured() ([]grpc.ServerOption, error) {
	if *certificate == "" {
		return nil, nil
	}
	own, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(*authority)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return nil, errors.New(*authority + ": no certificate in it")
	}
	shown, err := os.ReadFile(*token)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{own},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
	}
	return []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(config)),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
			headers, _ := metadata.FromIncomingContext(stream.Context())
			if got := headers.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+string(shown) {
				return status.Error(codes.Unauthenticated, "this is not the token")
			}
			if caller, ok := peer.FromContext(stream.Context()); ok {
				if info, ok := caller.AuthInfo.(credentials.TLSInfo); ok {
					for _, uri := range info.State.PeerCertificates[0].URIs {
						fmt.Println("identity", uri)
					}
				}
			}
			return serve(srv, stream)
		}),
	}, nil
}
