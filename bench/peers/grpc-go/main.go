// Calls through grpc-go's xDS channel, at a rate, until stdin closes.
//
// It prints "ready", and answers the line "status" as bench/src/control/calls.rs describes.
//
//	grpc-go RATE BOOTSTRAP
//
// It also measures picks of a policy: see pick.go.
//
//	grpc-go pick POLICY ENDPOINTS PICKS
//
// And it is a server and a client over mTLS: see secured.go.
//
//	grpc-go secured-server KEYS
//	grpc-go secured-client KEYS CALLERS MILLISECONDS ADDRESS...
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/xds"
)

const (
	method   = "/bench.Echo/Unary"
	deadline = 15 * time.Second
	callers  = 32
)

// raw passes message bodies through: the echo service has no schema.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

func main() {
	if len(os.Args) == 5 && os.Args[1] == "pick" {
		pick(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "secured-server" {
		securedServer(os.Args[2])
		return
	}
	if len(os.Args) > 5 && os.Args[1] == "secured-client" {
		securedClient(os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
		return
	}
	if len(os.Args) != 3 {
		log.Fatal("usage: see the comment at the top of main.go")
	}
	rate, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	resolver, err := xds.NewXDSResolverWithConfigForTesting([]byte(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("xds:///bench",
		grpc.WithResolvers(resolver),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		log.Fatal(err)
	}
	var first, done, failed atomic.Int64
	fmt.Println("ready")
	go func() {
		for call(conn) != nil {
			time.Sleep(time.Millisecond)
		}
		first.Store(time.Since(began).Microseconds())
		for range callers {
			go func() {
				for range time.Tick(time.Duration(callers) * time.Second / time.Duration(rate)) {
					if call(conn) != nil {
						failed.Add(1)
					}
					done.Add(1)
				}
			}()
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(first.Load(), done.Load(), failed.Load())
	}
}

func call(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	request, reply := []byte{7}, []byte{}
	return conn.Invoke(ctx, method, &request, &reply)
}
