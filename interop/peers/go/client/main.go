// A load generator on grpc-go: unary calls to an xds:/// target until stdin closes; see package calls.
//
//	GRPC_XDS_BOOTSTRAP=file client TARGET METHOD WORKERS
package main

import (
	"context"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds"
	"oxds/interop/peers-shared/calls"
)

func main() {
	plan := calls.Arguments()
	conn, err := grpc.NewClient(plan.Target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(calls.Raw{})))
	if err != nil {
		log.Fatal(err)
	}
	plan.Run(func(ctx context.Context, method string, request, reply *[]byte) (string, string) {
		s := status.Convert(conn.Invoke(ctx, method, request, reply))
		return s.Code().String(), s.Message()
	})
}
