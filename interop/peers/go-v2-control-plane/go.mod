module oxds/interop/peers-v2-control-plane

go 1.17

require (
	github.com/envoyproxy/go-control-plane v0.9.8
	google.golang.org/grpc v1.33.2
	google.golang.org/protobuf v1.26.0
	oxds/interop/peers-shared v0.0.0
	sigs.k8s.io/yaml v1.2.0
)

require (
	github.com/census-instrumentation/opencensus-proto v0.2.1 // indirect
	github.com/cncf/udpa/go v0.0.0-20201120205902-5459f2c99403 // indirect
	github.com/envoyproxy/protoc-gen-validate v0.1.0 // indirect
	github.com/golang/protobuf v1.5.0 // indirect
	golang.org/x/net v0.0.0-20190311183353-d8887717615a // indirect
	golang.org/x/sys v0.0.0-20190215142949-d0b11bdaac8a // indirect
	golang.org/x/text v0.3.0 // indirect
	google.golang.org/genproto v0.0.0-20200526211855-cb27e3aa2013 // indirect
	gopkg.in/yaml.v2 v2.2.8 // indirect
)

replace oxds/interop/peers-shared => ../go-shared
