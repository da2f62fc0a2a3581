"""A reader of CSDS, on gRPC's own generated stubs: what a control plane says its clients have.

It asks once by Fetch and once by a stream, demands that both say the same, and prints one JSON object per resource.

    csds.py ADDRESS [NODE_ID]
"""

import json
import sys

import grpc
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc
from envoy.admin.v3 import config_dump_shared_pb2 as shared

DEADLINE = 5.0


def request(node_id):
    message = csds_pb2.ClientStatusRequest()
    if node_id:
        message.node_matchers.add().node_id.exact = node_id
    return message


def resources(response):
    for client in response.config:
        for config in client.generic_xds_configs:
            yield {
                "node": client.node.id,
                "type": config.type_url.rpartition(".")[2],
                "name": config.name,
                "version": config.version_info,
                "status": csds_pb2.ConfigStatus.Name(config.config_status),
                "client": shared.ClientResourceStatus.Name(config.client_status),
                "content": config.xds_config.type_url.rpartition(".")[2],
                "reason": config.error_state.details,
            }


def main():
    address, node_id = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    with grpc.insecure_channel(address) as channel:
        stub = csds_pb2_grpc.ClientStatusDiscoveryServiceStub(channel)
        fetched = list(resources(stub.FetchClientStatus(request(node_id), timeout=DEADLINE)))
        stream = stub.StreamClientStatus(iter([request(node_id)]), timeout=DEADLINE)
        streamed = list(resources(next(stream)))
        stream.cancel()
    if fetched != streamed:
        sys.exit(f"Fetch and stream differ:\n{fetched}\n{streamed}")
    for resource in fetched:
        print(json.dumps(resource))


if __name__ == "__main__":
    main()
