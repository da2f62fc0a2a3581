package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// keys has the certificate of one side and its authority, from a folder.
func keys(folder, side string) *tls.Config {
	file := func(name string) string { return filepath.Join(folder, name) }
	certificate, err := tls.LoadX509KeyPair(file(side+".pem"), file(side+".key"))
	if err != nil {
		log.Fatal(err)
	}
	ca, err := os.ReadFile(file("ca.pem"))
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		log.Fatal("ca.pem has no certificate")
	}
	return &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		RootCAs:      pool,
		ServerName:   "127.0.0.1",
	}
}

// securedServer echoes messages over mTLS until stdin closes (S-R1, S-R3). It prints its address.
func securedServer(folder string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(keys(folder, "server"))),
		grpc.ForceServerCodec(raw{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			for {
				var message []byte
				if err := stream.RecvMsg(&message); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := stream.SendMsg(&message); err != nil {
					return err
				}
			}
		}))
	go func() { log.Fatal(server.Serve(listener)) }()
	fmt.Println(listener.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// securedClient calls over mTLS, round robin, with this many calls in flight (S-R2). It prints the CPU of an RPC in microseconds.
func securedClient(folder, callers, millis string, addresses []string) {
	inFlight, err := strconv.Atoi(callers)
	if err != nil {
		log.Fatal(err)
	}
	length, err := time.ParseDuration(millis + "ms")
	if err != nil {
		log.Fatal(err)
	}
	backends := manual.NewBuilderWithScheme("bench")
	var state resolver.State
	for _, address := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	backends.InitialState(state)
	conn, err := grpc.NewClient("bench:///bench",
		grpc.WithResolvers(backends),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(credentials.NewTLS(keys(folder, "client"))),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		log.Fatal(err)
	}
	if err := call(conn); err != nil {
		log.Fatal(err)
	}
	callFor(conn, inFlight, length/5)
	before := cpu()
	calls := callFor(conn, inFlight, length)
	json.NewEncoder(os.Stdout).Encode(float64((cpu() - before).Microseconds()) / float64(calls))
}

func callFor(conn *grpc.ClientConn, callers int, length time.Duration) int64 {
	var calls atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(length)
	for range callers {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				request, reply := make([]byte, 100), []byte{}
				if err := conn.Invoke(context.Background(), method, &request, &reply); err != nil {
					log.Fatal(err)
				}
				calls.Add(1)
			}
		}()
	}
	all.Wait()
	return calls.Load()
}

// cpu is the user and system time of this process.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
