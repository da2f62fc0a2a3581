//! The server: host name, `rpc-behavior`, health.

use std::time::Duration;

use oxds_interop_xds::messages::{Empty, SimpleRequest, SimpleResponse, path};
use oxds_interop_xds::wire::Connection;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::support::{SERVER, call, run, server};

const HEALTH: &str = "/grpc.health.v1.Health/Check";

async fn health(connection: &Connection) -> ServingStatus {
    let request = HealthCheckRequest::default();
    let answer = call::<_, HealthCheckResponse>(connection, HEALTH, request, &[]).await;
    answer.unwrap().get_ref().status()
}

async fn empty(connection: &Connection, behaviour: &str) -> Result<(), Code> {
    let metadata = [("rpc-behavior", behaviour)];
    let answer = call::<_, Empty>(connection, path::EMPTY_CALL, Empty {}, &metadata).await;
    answer.map(|_| ()).map_err(|status| status.code())
}

#[tokio::test]
async fn responses_name_the_host() {
    let (_program, address) = server(&["--server_id=seven", "--host_name_override=h"]).await;
    let connection = Connection::open(address).await.unwrap();
    let request = SimpleRequest {
        response_size: 10,
        ..SimpleRequest::default()
    };
    let answer = call::<_, SimpleResponse>(&connection, path::UNARY_CALL, request, &[]).await;
    let answer = answer.unwrap();
    assert_eq!(answer.metadata().get("hostname").unwrap(), "h");
    let message = answer.into_inner();
    assert_eq!((&*message.server_id, &*message.hostname), ("seven", "h"));
    assert_eq!(message.payload.unwrap().body.len(), 10);

    let answer = call::<_, Empty>(&connection, path::EMPTY_CALL, Empty {}, &[]).await;
    assert_eq!(answer.unwrap().metadata().get("hostname").unwrap(), "h");
}

#[tokio::test]
async fn rpc_behavior_header_is_obeyed() {
    let (_program, address) = server(&["--host_name_override=h"]).await;
    let connection = Connection::open(address).await.unwrap();
    let refused = empty(&connection, "error-code-9").await;
    assert_eq!(refused, Err(Code::FailedPrecondition));
    let elsewhere = empty(&connection, "hostname=other error-code-9").await;
    assert_eq!(elsewhere, Ok(()));
    assert_eq!(empty(&connection, "nap").await, Err(Code::InvalidArgument));

    let open = empty(&connection, "keep-open");
    let waited = tokio::time::timeout(Duration::from_millis(200), open).await;
    assert!(waited.is_err(), "{waited:?}");

    let retry = [
        ("rpc-behavior", "succeed-on-retry-attempt-1,error-code-14"),
        ("grpc-previous-rpc-attempts", "1"),
    ];
    let second = call::<_, Empty>(&connection, path::EMPTY_CALL, Empty {}, &retry).await;
    assert!(second.is_ok());
    let first = call::<_, Empty>(&connection, path::EMPTY_CALL, Empty {}, &retry[..1]).await;
    assert_eq!(first.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn health_is_set_on_either_port() {
    let (_one, address) = server(&[]).await;
    let connection = Connection::open(address).await.unwrap();
    assert_eq!(health(&connection).await, ServingStatus::Serving);

    let (mut two, address) = server(&["--maintenance_port=0"]).await;
    let test = Connection::open(address).await.unwrap();
    let refused = call::<_, Empty>(&test, path::SET_NOT_SERVING, Empty {}, &[]).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    let address = two.address("maintenance ").await;
    let maintenance = Connection::open(address).await.unwrap();
    for (path, status) in [
        (path::SET_NOT_SERVING, ServingStatus::NotServing),
        (path::SET_SERVING, ServingStatus::Serving),
    ] {
        let set = call::<_, Empty>(&maintenance, path, Empty {}, &[]).await;
        set.unwrap();
        assert_eq!(health(&maintenance).await, status);
    }
}

#[tokio::test]
async fn secure_mode_needs_a_bootstrap_and_a_maintenance_port() {
    for (more, reason) in [
        ("--server_id=x", "--secure_mode needs a --maintenance_port"),
        ("--maintenance_port=0", "GRPC_XDS_BOOTSTRAP"),
    ] {
        let output = run(SERVER, &["--port=0", "--secure_mode=True", more]).await;
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(reason), "{said}");
    }
}
