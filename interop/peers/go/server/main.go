// An xDS-enabled server on grpc-go: answers every call of any method with NAME, unless its configuration denies the call.
//
//	GRPC_XDS_BOOTSTRAP=file server ADDRESS METHOD NAME
//
// Its transport security is that of the control plane, or none. Prints "started" once it waits for its listener, and "mode MODE" or
// "mode MODE: ERROR" when its serving mode changes.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/xds"
	"oxds/interop/peers-shared/calls"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: server ADDRESS METHOD NAME")
	}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	credentials, err := xdscreds.NewServerCredentials(xdscreds.ServerOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		log.Fatal(err)
	}
	name := []byte(os.Args[3])
	answer := func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		return stream.SendMsg(&name)
	}
	server, err := xds.NewGRPCServer(
		grpc.Creds(credentials),
		grpc.ForceServerCodec(calls.Raw{}),
		grpc.UnknownServiceHandler(answer),
		xds.ServingModeCallback(changed))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("started")
	log.Fatal(server.Serve(listener))
}

func changed(_ net.Addr, args xds.ServingModeChangeArgs) {
	mode := strings.ToLower(args.Mode.String())
	if args.Err != nil {
		fmt.Printf("mode %s: %q\n", mode, args.Err.Error())
		return
	}
	fmt.Println("mode", mode)
}
