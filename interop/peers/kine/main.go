// kine with its backend in memory: a part of etcd's API, for the scenario in which a replica finds it behind --etcd.
//
// kine's own main program has all backends, and takes minutes to build. The argument is the address to listen on; it prints the one that it got.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"time"

	"github.com/k3s-io/kine/pkg/drivers"
	"github.com/k3s-io/kine/pkg/drivers/memory"
	"github.com/k3s-io/kine/pkg/server"
	"google.golang.org/grpc"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: kine ADDRESS")
	}
	ctx := context.Background()
	_, backend, err := memory.New(ctx, &sync.WaitGroup{}, &drivers.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := backend.Start(ctx); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	programs := grpc.NewServer()
	// The values of kine's options by default.
	server.New(backend, "http", 5*time.Second, "3.6.11").Register(programs)
	fmt.Println("listening", listener.Addr())
	log.Fatal(programs.Serve(listener))
}
