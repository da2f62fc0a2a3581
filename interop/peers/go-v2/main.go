// The load generator of peers/go on grpc-go as it was when it spoke xDS v2: the same lines, for the same runner.
//
//	GRPC_XDS_BOOTSTRAP=file client TARGET METHOD WORKERS
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
)

const (
	deadline = 15 * time.Second
	pause    = 3 * time.Millisecond
)

// raw passes message bodies through: the echo service has no schema.
type raw struct{}

func (raw) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

var _ encoding.Codec = raw{}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: client TARGET METHOD WORKERS")
	}
	workers, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.Dial(os.Args[1], grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.WaitForReady(true)))
	if err != nil {
		log.Fatal(err)
	}
	lines := make(chan string, workers)
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for i := 0; i < workers; i++ {
		running.Add(1)
		go func() {
			defer running.Done()
			for ctx.Err() == nil {
				lines <- call(conn, os.Args[2])
				time.Sleep(pause)
			}
		}()
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
		running.Wait()
		close(lines)
	}()
	out := bufio.NewWriter(os.Stdout)
	for line := range lines {
		fmt.Fprintln(out, line)
		out.Flush()
	}
}

func call(conn *grpc.ClientConn, method string) string {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	request, reply := []byte{}, []byte{}
	if err := conn.Invoke(ctx, method, &request, &reply); err != nil {
		s := status.Convert(err)
		return fmt.Sprintf("err %s %q", s.Code(), s.Message())
	}
	return "ok " + string(reply)
}
