"""A reader of the admin services, on gRPC's own generated stubs (grpcio-channelz, grpcio-health-checking, xds-protos).

It prints one JSON object per thing that the process tells of, as its Go twin does.

    debug.py ADDRESS
"""

import ipaddress
import json
import sys

import grpc
from envoy.admin.v3 import config_dump_shared_pb2 as shared
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

DEADLINE = 5.0


def show(**thing):
    print(json.dumps(thing))


def address(of):
    tcp = of.tcpip_address
    ip = ipaddress.ip_address(tcp.ip_address)
    return f"[{ip}]:{tcp.port}" if ip.version == 6 else f"{ip}:{tcp.port}"


def node(what, of, data):
    state = channelz_pb2.ChannelConnectivityState.State.Name(data.state.state)
    created = data.trace.creation_timestamp.seconds
    show(what=what, of=of, target=data.target, state=state, created=created, **calls(data))


def calls(data):
    return {"started": data.calls_started, "succeeded": data.calls_succeeded, "failed": data.calls_failed}


def channels(stub):
    page = stub.GetTopChannels(channelz_pb2.GetTopChannelsRequest(), timeout=DEADLINE)
    for listed in page.channel:
        one = stub.GetChannel(channelz_pb2.GetChannelRequest(channel_id=listed.ref.channel_id), timeout=DEADLINE)
        node("channel", "", one.channel.data)
        for ref in one.channel.subchannel_ref:
            asked = channelz_pb2.GetSubchannelRequest(subchannel_id=ref.subchannel_id)
            below = stub.GetSubchannel(asked, timeout=DEADLINE).subchannel
            node("subchannel", one.channel.data.target, below.data)
            for ref in below.socket_ref:
                socket(stub, below.data.target, ref.socket_id)


def socket(stub, of, socket_id):
    one = stub.GetSocket(channelz_pb2.GetSocketRequest(socket_id=socket_id), timeout=DEADLINE).socket
    data = one.data
    streams = {"started": data.streams_started, "succeeded": data.streams_succeeded, "failed": data.streams_failed}
    show(what="socket", of=of, local=address(one.local), remote=address(one.remote), **streams)


def servers(stub):
    page = stub.GetServers(channelz_pb2.GetServersRequest(), timeout=DEADLINE)
    for listed in page.server:
        one = stub.GetServer(channelz_pb2.GetServerRequest(server_id=listed.ref.server_id), timeout=DEADLINE).server
        asked = channelz_pb2.GetSocketRequest(socket_id=one.listen_socket[0].socket_id)
        listens = stub.GetSocket(asked, timeout=DEADLINE).socket
        show(what="server", of="", target=one.ref.name, local=address(listens.local), **calls(one.data))


def resources(stub):
    status = stub.FetchClientStatus(csds_pb2.ClientStatusRequest(), timeout=DEADLINE)
    for config in status.config:
        for resource in config.generic_xds_configs:
            state = shared.ClientResourceStatus.Name(resource.client_status)
            show(what="resource", of=config.client_scope, target=resource.name, type=resource.type_url,
                 state=state, version=resource.version_info)


def main():
    with grpc.insecure_channel(sys.argv[1]) as channel:
        channels(channelz_pb2_grpc.ChannelzStub(channel))
        servers(channelz_pb2_grpc.ChannelzStub(channel))
        resources(csds_pb2_grpc.ClientStatusDiscoveryServiceStub(channel))
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE)
        show(what="health", of="", state=health_pb2.HealthCheckResponse.ServingStatus.Name(health.status))


if __name__ == "__main__":
    main()
