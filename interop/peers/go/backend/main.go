// A backend on grpc-go: answers every call with an empty message, and reports by ORCA cpu_utilization
// 0.25, and named metrics "queue" 3 and "other" 1. Calls of methods named Fail fail.
//
// Prints "grpc ADDRESS" once it listens.
package main

import (
	"fmt"
	"log"
	"net"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(orca.CallMetricsServerOption(nil), grpc.UnknownServiceHandler(answer))
	fmt.Println("grpc", listener.Addr())
	log.Fatal(server.Serve(listener))
}

func answer(_ any, stream grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(stream); path.Base(method) == "Fail" {
		return status.Error(codes.Internal, "as it was asked to")
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	recorder := orca.CallMetricsRecorderFromContext(stream.Context())
	recorder.SetCPUUtilization(0.25)
	recorder.SetNamedUtilization("ignored", 0.5)
	recorder.SetNamedMetric("queue", 3)
	recorder.SetNamedMetric("other", 1)
	return stream.SendMsg(&emptypb.Empty{})
}
