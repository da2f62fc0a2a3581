// A reader of the admin services, on grpc-go's generated stubs: channels, servers, health and xDS resources of a
// process.
//
// It uses the methods that grpcdebug uses, requires the fields that grpcdebug requires (creation
// times, addresses over TCP, times and windows of sockets), and prints one JSON object per thing. The Python reader next
// door prints the same.
//
//	debug ADDRESS
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/netip"
	"os"
	"time"

	csds "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const deadline = 5 * time.Second

type object map[string]any

func show(thing object) {
	line, err := json.Marshal(thing)
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// seconds fails if the time is missing.
func seconds(at *timestamppb.Timestamp) int64 { return at.Seconds }

func address(of *channelz.Address) string {
	tcp := of.GetTcpipAddress()
	ip, ok := netip.AddrFromSlice(tcp.IpAddress)
	if !ok {
		log.Fatalf("no IP address: %v", of)
	}
	return netip.AddrPortFrom(ip, uint16(tcp.Port)).String()
}

func node(what, of string, data *channelz.ChannelData) object {
	return object{
		"what": what, "of": of, "target": data.Target, "state": data.State.State.String(),
		"started": data.CallsStarted, "succeeded": data.CallsSucceeded, "failed": data.CallsFailed,
		"created": seconds(data.Trace.CreationTimestamp),
	}
}

func channels(ctx context.Context, client channelz.ChannelzClient) {
	page, err := client.GetTopChannels(ctx, &channelz.GetTopChannelsRequest{MaxResults: 100})
	must(err)
	for _, listed := range page.Channel {
		one, err := client.GetChannel(ctx, &channelz.GetChannelRequest{ChannelId: listed.Ref.ChannelId})
		must(err)
		channel := one.Channel
		show(node("channel", "", channel.Data))
		for _, ref := range channel.SubchannelRef {
			below, err := client.GetSubchannel(ctx, &channelz.GetSubchannelRequest{SubchannelId: ref.SubchannelId})
			must(err)
			subchannel := below.Subchannel
			show(node("subchannel", channel.Data.Target, subchannel.Data))
			for _, ref := range subchannel.SocketRef {
				socket(ctx, client, subchannel.Data.Target, ref.SocketId)
			}
		}
	}
}

func socket(ctx context.Context, client channelz.ChannelzClient, of string, id int64) {
	one, err := client.GetSocket(ctx, &channelz.GetSocketRequest{SocketId: id})
	must(err)
	data := one.Socket.Data
	for _, at := range []*timestamppb.Timestamp{
		data.LastLocalStreamCreatedTimestamp, data.LastRemoteStreamCreatedTimestamp,
		data.LastMessageSentTimestamp, data.LastMessageReceivedTimestamp,
	} {
		seconds(at)
	}
	_, _ = data.LocalFlowControlWindow.Value, data.RemoteFlowControlWindow.Value
	show(object{
		"what": "socket", "of": of, "local": address(one.Socket.Local), "remote": address(one.Socket.Remote),
		"started": data.StreamsStarted, "succeeded": data.StreamsSucceeded, "failed": data.StreamsFailed,
	})
}

func servers(ctx context.Context, client channelz.ChannelzClient) {
	page, err := client.GetServers(ctx, &channelz.GetServersRequest{MaxResults: 100})
	must(err)
	for _, listed := range page.Server {
		one, err := client.GetServer(ctx, &channelz.GetServerRequest{ServerId: listed.Ref.ServerId})
		must(err)
		data := one.Server.Data
		seconds(data.LastCallStartedTimestamp)
		listens, err := client.GetSocket(ctx, &channelz.GetSocketRequest{SocketId: one.Server.ListenSocket[0].SocketId})
		must(err)
		_, err = client.GetServerSockets(ctx, &channelz.GetServerSocketsRequest{ServerId: listed.Ref.ServerId})
		must(err)
		show(object{
			"what": "server", "of": "", "target": one.Server.Ref.Name, "local": address(listens.Socket.Local),
			"started": data.CallsStarted, "succeeded": data.CallsSucceeded, "failed": data.CallsFailed,
		})
	}
}

func resources(ctx context.Context, client csds.ClientStatusDiscoveryServiceClient) {
	status, err := client.FetchClientStatus(ctx, &csds.ClientStatusRequest{})
	must(err)
	for _, config := range status.Config {
		for _, resource := range config.GenericXdsConfigs {
			seconds(resource.LastUpdated)
			show(object{
				"what": "resource", "of": config.ClientScope, "target": resource.Name, "type": resource.TypeUrl,
				"state": resource.ClientStatus.String(), "version": resource.VersionInfo,
			})
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: debug ADDRESS")
	}
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	channels(ctx, channelz.NewChannelzClient(conn))
	servers(ctx, channelz.NewChannelzClient(conn))
	resources(ctx, csds.NewClientStatusDiscoveryServiceClient(conn))
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	must(err)
	show(object{"what": "health", "of": "", "state": health.Status.String()})
}
