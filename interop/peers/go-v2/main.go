// The load generator of peers/go on grpc-go of releases that spoke xDS v2; see package calls.
//
//	GRPC_XDS_BOOTSTRAP=file client TARGET METHOD WORKERS
package main

import (
	"context"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
	"oxds/interop/peers-shared/calls"
)

func main() {
	plan := calls.Arguments()
	conn, err := grpc.Dial(plan.Target, grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(calls.Raw{}), grpc.WaitForReady(true)))
	if err != nil {
		log.Fatal(err)
	}
	plan.Run(func(ctx context.Context, method string, request, reply *[]byte) (string, string) {
		s := status.Convert(conn.Invoke(ctx, method, request, reply))
		return s.Code().String(), s.Message()
	})
}
