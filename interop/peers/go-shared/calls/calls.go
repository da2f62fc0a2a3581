// Package calls is a load generator for any release of grpc-go: unary calls until stdin closes.
//
// It prints one line per finished call: "ok BACKEND" or "err CODE MESSAGE". The Python client next door
// speaks the same lines, so the runner treats all alike.
package calls

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
)

const (
	// deadline is longer than any wait the scenarios cause on purpose: a call that takes this long is lost.
	deadline = 15 * time.Second
	// pause keeps one worker near 300 calls a second, which two cores can serve beside all the rest.
	pause = 3 * time.Millisecond
)

// Raw is a codec that passes message bodies through: the echo service has no schema.
type Raw struct{}

func (Raw) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (Raw) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (Raw) Name() string { return "proto" }

// Plan holds the arguments of the command line: TARGET METHOD WORKERS.
type Plan struct {
	Target, Method string
	// Workers is the number of calls in progress at once.
	Workers int
}

// Arguments parses the command line, and ends the program if it is invalid.
func Arguments() Plan {
	if len(os.Args) != 4 {
		log.Fatal("usage: client TARGET METHOD WORKERS")
	}
	workers, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	return Plan{os.Args[1], os.Args[2], workers}
}

// Caller makes one call and returns its status.
type Caller func(ctx context.Context, method string, request, reply *[]byte) (code, message string)

// Run calls until stdin closes.
func (p Plan) Run(call Caller) {
	lines := make(chan string, p.Workers)
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for i := 0; i < p.Workers; i++ {
		running.Add(1)
		go func() {
			defer running.Done()
			for ctx.Err() == nil {
				lines <- p.once(call)
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

func (p Plan) once(call Caller) string {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	request, reply := []byte{}, []byte{}
	if code, message := call(ctx, p.Method, &request, &reply); code != "OK" {
		return fmt.Sprintf("err %s %q", code, message)
	}
	return "ok " + string(reply)
}
