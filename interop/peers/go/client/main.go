// A load generator on grpc-go: unary calls to an xds:/// target until stdin closes; see package calls.
//
//	GRPC_XDS_BOOTSTRAP=file client TARGET METHOD WORKERS [keys COUNT | targets COUNT | requests FILE]
//
// With "keys" it makes one call for each key, 0 to COUNT - 1, in the header x-key, and prints "key KEY BACKEND" for each and
// "done" at the end. With "targets" it opens COUNT channels, to TARGET000, TARGET001, …, and makes no call. With "requests" it
// reads calls from a file, a line of JSON each, makes them, each on a channel of its own, and prints "request NUMBER ok BACKEND" or
// "request NUMBER failed CODE".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
	"oxds/interop/peers-shared/calls"
)

// deadline of a call with a key: longer than any wait for a connection.
const deadline = 15 * time.Second

func main() {
	var mode string
	var count int
	if len(os.Args) == 6 {
		mode = os.Args[4]
		if mode == "requests" {
			file := os.Args[5]
			os.Args = os.Args[:4]
			callEach(calls.Arguments(), file)
			return
		}
		var err error
		if count, err = strconv.Atoi(os.Args[5]); err != nil {
			log.Fatal(err)
		}
		os.Args = os.Args[:4]
	}
	plan := calls.Arguments()
	switch mode {
	case "keys":
		callByKey(open(plan.Target), plan, count)
		return
	case "targets":
		for number := 0; number < count; number++ {
			open(fmt.Sprintf("%s%03d", plan.Target, number)).Connect()
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	conn := open(plan.Target)
	plan.Run(func(ctx context.Context, method string, request, reply *[]byte) (string, string) {
		s := status.Convert(conn.Invoke(ctx, method, request, reply))
		return s.Code().String(), s.Message()
	})
}

// open makes a channel whose clusters have the security that the control plane says, or none.
func open(target string) *grpc.ClientConn {
	credentials, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(credentials),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(calls.Raw{})))
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

func callByKey(conn *grpc.ClientConn, plan calls.Plan, keys int) {
	var running sync.WaitGroup
	for first := 0; first < plan.Workers; first++ {
		running.Add(1)
		go func() {
			defer running.Done()
			for key := first; key < keys; key += plan.Workers {
				ctx, cancel := context.WithTimeout(context.Background(), deadline)
				ctx = metadata.AppendToOutgoingContext(ctx, "x-key", strconv.Itoa(key))
				request, reply := []byte{}, []byte{}
				if err := conn.Invoke(ctx, plan.Method, &request, &reply); err != nil {
					fmt.Printf("err %v\n", err)
				} else {
					fmt.Printf("key %d %s\n", key, reply)
				}
				cancel()
			}
		}()
	}
	running.Wait()
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A call of the mode "requests".
type call struct {
	Number  int
	Target  string
	Method  string
	Headers map[string]string
}

func callEach(plan calls.Plan, path string) {
	file, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	asked := make(chan call)
	var running sync.WaitGroup
	for worker := 0; worker < plan.Workers; worker++ {
		running.Add(1)
		go func() {
			defer running.Done()
			for one := range asked {
				fmt.Println(one.make())
			}
		}()
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var one call
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			log.Fatal(err)
		}
		asked <- one
	}
	close(asked)
	running.Wait()
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func (one call) make() string {
	conn := open(one.Target)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	for name, value := range one.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	request, reply := []byte{}, []byte{}
	if err := conn.Invoke(ctx, one.Method, &request, &reply); err != nil {
		return fmt.Sprintf("request %d failed %v", one.Number, status.Code(err))
	}
	return fmt.Sprintf("request %d ok %s", one.Number, reply)
}
