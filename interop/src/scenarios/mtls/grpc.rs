//! gRPC clients and servers over mTLS: refused certificates, and rotation under load.

use std::net::{IpAddr, Ipv4Addr};

use oxds_testkit::certificates::Authority;

use super::faults::{Fault, log_by_client, log_of_server, status_by_client, status_by_server};
use super::world::{ADDRESS, CLIENT, Caller, FAILED, Load, SERVER, World};
use super::{SETTLED, SOON, Scenario, only_at};
use crate::backend::METHOD;
use crate::calls::Counts;
use crate::peers::grpc::Grpc;
use crate::peers::grpc_server::{GrpcServer, ServerMake};
use crate::peers::service_files::ServiceFiles;
use crate::raw::{ALPN, RawClient};
use crate::wait::until;
use crate::{Context, Fallible};

pub(super) fn scenarios() -> Vec<Scenario> {
    let of = |(caller, server): (Caller, ServerMake)| {
        let pair = format!("mtls_{}_and_{}_server", caller.name(), server.name());
        [
            Scenario::new(format!("{pair}_refuse_invalid_certificates"), move |cx| {
                refuse(cx, caller, server)
            }),
            Scenario::new(format!("{pair}_follow_new_certificates"), move |cx| {
                rotate(cx, caller, server)
            }),
        ]
    };
    let pairs = [
        (Caller::Channel, ServerMake::Go),
        (Caller::Channel, ServerMake::Core),
        (Caller::Grpc(Grpc::Go), ServerMake::Oxds),
        (Caller::Grpc(Grpc::Core), ServerMake::Oxds),
    ];
    pairs.into_iter().flat_map(of).collect()
}

/// Given a client and a server with certificates of the mesh,
/// then calls succeed; when they lead to a server whose certificate has expired, is of another authority, or has the
/// name of another service, then they fail with the reason, and the server logs it; then they succeed again at the
/// first server, which refuses clients with such certificates, and logs the reason.
async fn refuse(cx: Context, caller: Caller, make: ServerMake) -> Fallible {
    let world = World::start(cx).await?;
    let good = world.files("server", SERVER)?;
    let good = world.server(make, "good", &good).await?;
    world.lead_to(&[&good])?;
    let load = world.call(caller, &world.files("client", CLIENT)?).await?;
    only_at(load.calls(), "calls", &["good"]).await?;

    for fault in Fault::ALL {
        let issued = fault.issue(&world.authority, SERVER)?;
        let name = format!("{}-server", fault.name());
        let files = ServiceFiles::create(&world.cx, &name, &issued, &world.authority)?;
        let server = world.server(make, &name, &files).await?;
        world.lead_to(&[&server])?;
        fail(&load, &name, status_by_server(caller, make, fault)).await?;
        server
            .logs(log_of_server(caller, make, fault), SOON)
            .await?;
    }
    world.lead_to(&[&good])?;
    only_at(load.calls(), "calls after the refusals", &["good"]).await?;

    for fault in Fault::ALL {
        let issued = fault.issue(&world.authority, CLIENT)?;
        let name = format!("{}-client", fault.name());
        let files = ServiceFiles::create(&world.cx, &name, &issued, &world.authority)?;
        let refused = world.call(caller, &files).await?;
        fail(&refused, &name, status_by_client(caller, make, fault)).await?;
        if let Some(texts) = log_by_client(caller, make, fault) {
            good.logs(texts, SOON).await?;
        }
    }
    only_at(load.calls(), "calls beside the refused", &["good"]).await
}

/// Waits until all calls fail, each with these texts.
async fn fail(load: &Load, what: &str, texts: &[&str]) -> Fallible {
    let what = format!("calls with {what} fail with {texts:?}");
    let wanted = |failure: &String| texts.iter().all(|text| failure.contains(text));
    let only = |counts: &Counts| counts.by_backend.is_empty() && counts.failures.iter().all(wanted);
    load.calls().settle(&what, FAILED, SOON, only).await?;
    Ok(())
}

/// Given calls under way, when the authority and the certificates of both sides are replaced on disk, so that no
/// earlier certificate is valid beside them, then calls continue; the next connection to the server has the new
/// certificates; the running client connects with the new ones to another server, which never had others; and no call
/// has failed.
async fn rotate(cx: Context, caller: Caller, make: ServerMake) -> Fallible {
    let world = World::start(cx).await?;
    let (own, theirs) = (
        world.files("client", CLIENT)?,
        world.files("server", SERVER)?,
    );
    let first = world.server(make, "first", &theirs).await?;
    world.lead_to(&[&first])?;
    let load = world.call(caller, &own).await?;
    let calls = load.calls();
    only_at(calls, "calls", &["first"]).await?;
    let mark = calls.mark();

    let new = Authority::new("new")?;
    theirs.renew(&new.issue(&[SERVER, ADDRESS])?, &new)?;
    own.renew(&new.issue(&[CLIENT, ADDRESS])?, &new)?;
    until("the server's new certificates", SOON, async || {
        accepts(&first, &new).await.map(Some)
    })
    .await?;
    if accepts(&first, &world.authority).await.is_ok() {
        return Err("the server accepts the old certificates, too".into());
    }

    // As long as the client connects with the old certificates, the calls stay at the first server.
    let second = world.server(make, "second", &theirs).await?;
    world.lead_to(&[&first, &second])?;
    let joined = |counts: &Counts| counts.by_backend.contains_key("second");
    calls
        .settle("calls at the second server", SETTLED, SOON, joined)
        .await?;
    world.lead_to(&[&second])?;
    only_at(calls, "calls after the rotation", &["second"]).await?;
    match calls.since(mark).failures.first() {
        Some(failure) => Err(format!("a call failed: {failure}").into()),
        None => Ok(()),
    }
}

/// Makes a call on a new connection, where both sides must have certificates of this authority.
async fn accepts(server: &GrpcServer, authority: &Authority) -> Fallible {
    let issued = authority.issue(&[CLIENT])?;
    let connector = authority.connector(Some(&issued), &[ALPN])?;
    let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut client = RawClient::connect(source, server.address, Some(&connector)).await?;
    match client.call("mesh", METHOD, &[]).await? {
        (0, _) => Ok(()),
        status => Err(format!("{status:?}").into()),
    }
}
