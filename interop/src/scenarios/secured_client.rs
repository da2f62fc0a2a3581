//! Our own client over mTLS, with a token in every call (gRFC A65, A97), with other control planes: go-control-plane by
//! ADS, and Python's standard library by REST.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_client::source::Rest;
use oxds_client::{Bootstrap, Update, Watch, XdsClient};
use oxds_core::resource::Cluster;
use tokio::time::timeout;

use super::envoy::resources;
use super::source::publish;
use super::{SOON, Scenario, only_at};
use crate::backend::{Backend, METHOD};
use crate::certificates::{Certificates, IDENTITY, Tls};
use crate::config::{Folder, api_listener};
use crate::peers::channel::{ChannelLoad, call, open};
use crate::peers::rest::RestPlane;
use crate::peers::third_party::{ThirdParty, ThirdPartyControlPlane};
use crate::{Context, Fallible};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "mtls_channel_sends_its_token_to_go_control_plane".to_owned(),
            channel_to_go,
        ),
        Scenario::new(
            "mtls_source_rest_sends_its_token".to_owned(),
            polls_to_python,
        ),
    ]
}

/// All calls to one of the two clusters. Both stay: go-control-plane does not make before it breaks.
fn write(folder: &Folder, to: &str, blue: &Backend, green: &Backend) -> Fallible {
    folder.write("listener.yaml", &[api_listener()])?;
    folder.write("mesh.yaml", &resources(&[(to, 1)], blue, green))
}

/// Given go-control-plane, which requires a certificate and a token (C-17, C-34),
/// then our channel with both calls blue, and the control plane knows its identity; a channel without a token is
/// denied, and its calls say so; when all certificates are replaced by those of another authority, and the control
/// plane returns with them and with green (C-18), then calls follow, and none fails.
async fn channel_to_go(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let folder = Folder::create(&cx.dir)?;
    write(&folder, "blue", &blue, &green)?;
    let certificates = Certificates::create(&cx.dir)?;
    let options = certificates.of_go();
    let serve = async |address: SocketAddr| {
        ThirdPartyControlPlane::serve_with(&cx, ThirdParty::Go, &folder, address, &options).await
    };
    let mut control_plane = serve(cx.address()?).await?;
    let address = control_plane.grpc;
    let load = ChannelLoad::start_with(certificates.bootstrap_with_token(address)?)?;
    only_at(&load.calls, "calls", &["blue"]).await?;
    control_plane.identified(IDENTITY, SOON).await?;

    let without = certificates.bootstrap(address, Tls::Mutual).to_string();
    let mut without = open(Bootstrap::from_json(&without)?)?;
    match call(&mut without, METHOD).await? {
        Err(failure) if failure.contains("Unauthenticated") => {}
        other => return Err(format!("without a token: {other:?}").into()),
    }

    certificates.renew()?;
    write(&folder, "green", &blue, &green)?;
    control_plane.kill().await?;
    let _control_plane = serve(address).await?;
    only_at(&load.calls, "calls", &["green"]).await?;
    load.calls.none_failed()
}

/// Given a Python REST server that requires a certificate and a token,
/// then our client with both has its resources; a client without a token gets 401; when all certificates are replaced,
/// then the next polls use the new ones, and an edit is followed.
async fn polls_to_python(cx: Context) -> Fallible {
    publish(&cx.dir, "1", &[("a", "one")])?;
    let certificates = Certificates::create(&cx.dir)?;
    let files = certificates.paths(["server.pem", "server.key", "ca.pem", "token"]);
    let mut plane = RestPlane::serve_with(&cx, &cx.dir, &files).await?;
    let client = XdsClient::new(
        Bootstrap::without_servers()
            .node_id("interop")
            .build()?
            .into(),
    );
    let watch = |bootstrap: Bootstrap| -> Fallible<Watch<Cluster>> {
        let server = bootstrap.servers().first().ok_or("no server")?;
        let rest = Rest::of(server.clone()).refresh_delay(Duration::from_millis(100));
        Ok(client.watch_from::<Cluster>(&rest.into(), "a")?)
    };
    let mut a = watch(certificates.bootstrap_with_token(plane.http)?)?;
    receives(&mut a, |update| is_of(update, "one")).await?;
    plane.polled("clusters - interop 200", SOON).await?;

    let json = certificates.bootstrap(plane.http, Tls::Mutual).to_string();
    let mut without = watch(Bootstrap::from_json(&json)?)?;
    receives(&mut without, |update| match update {
        Update::Changed(Err(error)) => error.to_string().contains("HTTP 401"),
        _ => false,
    })
    .await?;
    drop(without);

    certificates.renew()?;
    publish(&cx.dir, "2", &[("a", "two")])?;
    receives(&mut a, |update| is_of(update, "two")).await?;
    plane.polled("clusters 1 interop 200", SOON).await
}

fn is_of(update: &Update<Arc<Cluster>>, service: &str) -> bool {
    matches!(update, Update::Changed(Ok(cluster)) if &*cluster.eds_service_name == service)
}

/// Waits for such an update.
async fn receives(
    watch: &mut Watch<Cluster>,
    wanted: impl Fn(&Update<Arc<Cluster>>) -> bool,
) -> Fallible {
    let waiting = async {
        while let Some(update) = watch.next().await {
            if wanted(&update) {
                return Ok(());
            }
        }
        Err("the client is gone".into())
    };
    let received = timeout(SOON, waiting).await;
    received.map_err(|_| "no such update in time")?
}
