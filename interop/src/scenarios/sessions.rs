//! Sessions by cookie (gRFC A55, A60), with the same folder for our channel and for C-core. The other languages have no
//! sessions.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::scenario::Ending;
use super::{SETTLED, SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::calls::Counts;
use crate::config::{
    Folder, api_listener_with, assignment, assignment_of, cluster_with, endpoint, routes,
};
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::peers::sessions::SessionLoad;
use crate::{Context, Fallible};

const SESSION: &str = r#"{ name: session, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession, session_state: { name: cookie, typed_config: { "@type": type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState, cookie: { name: route, path: /oxds.interop.Echo, ttl: 60s } } } } }"#;

const KEEP_DRAINING: &str =
    "common_lb_config: { override_host_status: { statuses: [UNKNOWN, HEALTHY, DRAINING] } }";

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Clients under test.
#[derive(Clone, Copy, Debug)]
enum Client {
    Ours,
    Core,
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (name, client) in [("channel", Client::Ours), ("grpc_core", Client::Core)] {
        let mut add = |what: &str, run: fn(Context, Client) -> Ending| {
            let name = format!("{name}_{what}");
            all.push(Scenario::new(name, move |cx| run(cx, client)));
        };
        add("stateful_session_stays_while_draining", |cx, client| {
            Box::pin(session_stays_while_draining(cx, client))
        });
        add("stateful_session_follows_a_foreign_cookie", |cx, client| {
            Box::pin(session_follows_a_foreign_cookie(cx, client))
        });
        add(
            "stateful_session_keeps_its_weighted_cluster",
            |cx, client| Box::pin(session_keeps_its_weighted_cluster(cx, client)),
        );
    }
    all
}

impl Client {
    fn start(self, cx: &Context, bootstrap: &Path, cookie: &str) -> Fallible<SessionLoad> {
        match self {
            Self::Ours => SessionLoad::by_channel(bootstrap, cookie),
            Self::Core => SessionLoad::by_core(cx, bootstrap, cookie),
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Ours => Self::Core,
            Self::Core => Self::Ours,
        }
    }
}

/// A control plane over a folder.
struct ControlPlane {
    folder: Folder,
    _oxds: Oxds,
    bootstrap: PathBuf,
}

impl ControlPlane {
    async fn start(cx: &Context, resources: &[String]) -> Fallible<Self> {
        let folder = Folder::create(&cx.dir)?;
        folder.write("listener.yaml", &[api_listener_with(SESSION)])?;
        folder.write("mesh.yaml", resources)?;
        let oxds = Oxds::serve(cx, &folder).await?;
        let bootstrap = bootstrap(cx, Bootstrap::Grpc, oxds.grpc).await?;
        Ok(Self {
            folder,
            _oxds: oxds,
            bootstrap,
        })
    }
}

/// A cluster `blue` with these endpoints; the ones in `draining` drain.
fn blue(backends: &[&Backend], draining: &[SocketAddr]) -> [String; 3] {
    let fields = |address| {
        if draining.contains(&address) {
            "health_status: DRAINING"
        } else {
            ""
        }
    };
    let all = backends.iter().map(|backend| backend.address);
    let endpoints = all.map(|address| endpoint(address, fields(address)));
    let endpoints = assignment_of("blue", &[(0, endpoints.collect())]);
    [
        routes(&[("blue", 1)]),
        cluster_with("blue", KEEP_DRAINING),
        endpoints,
    ]
}

/// Waits until one backend answers all calls of the session, and returns its name.
async fn settled(load: &SessionLoad) -> Fallible<String> {
    let alone = |counts: &Counts| counts.failures.is_empty() && counts.by_backend.len() == 1;
    let what = "the session at one backend";
    let counts = load.session.settle(what, SETTLED, SOON, alone).await?;
    let name = counts.by_backend.into_keys().next();
    name.ok_or_else(|| "no calls".into())
}

/// Given three backends and a session at one of them,
/// when this backend drains, and is removed later,
/// then the session stays while other calls leave, and moves to another backend later (A55).
async fn session_stays_while_draining(cx: Context, client: Client) -> Fallible {
    let backends = [
        Backend::start(NAMES[0]).await?,
        Backend::start(NAMES[1]).await?,
        Backend::start(NAMES[2]).await?,
    ];
    let all: Vec<_> = backends.iter().collect();
    let plane = ControlPlane::start(&cx, &blue(&all, &[])).await?;
    let load = client.start(&cx, &plane.bootstrap, "")?;
    only_at(&load.others, "calls", &NAMES).await?;
    let first = settled(&load).await?;
    let index = NAMES.iter().position(|name| *name == first);
    let index = index.ok_or_else(|| format!("unknown backend {first}"))?;
    let others: Vec<_> = NAMES.into_iter().filter(|name| *name != first).collect();

    let draining = [backends[index].address];
    plane.folder.write("mesh.yaml", &blue(&all, &draining))?;
    only_at(&load.others, "calls", &others).await?;
    let counts = load.session.next(SETTLED, SOON).await?;
    if !counts.only(&[&first]) {
        return Err(format!("the session left {first}: {counts}").into());
    }

    let rest: Vec<_> = all
        .into_iter()
        .filter(|one| one.address != draining[0])
        .collect();
    plane.folder.write("mesh.yaml", &blue(&rest, &[]))?;
    let moved =
        |counts: &Counts| counts.by_backend.len() == 1 && !counts.by_backend.contains_key(&first);
    let what = "the session at another backend";
    load.session.settle(what, SETTLED, SOON, moved).await?;
    load.session.none_failed()?;
    // One cookie for each endpoint that it had.
    let cookies = load.cookies();
    match cookies.len() {
        2 => Ok(()),
        _ => Err(format!("cookies were set: {cookies:?}").into()),
    }
}

/// Given a session of one client,
/// when another client continues it with the same cookie,
/// then its calls go to the same backend, and the cookie is not set again.
async fn session_follows_a_foreign_cookie(cx: Context, client: Client) -> Fallible {
    let backends = [
        Backend::start(NAMES[0]).await?,
        Backend::start(NAMES[1]).await?,
        Backend::start(NAMES[2]).await?,
    ];
    let plane = ControlPlane::start(&cx, &blue(&backends.each_ref(), &[])).await?;
    let before = client.other().start(&cx, &plane.bootstrap, "")?;
    let backend = settled(&before).await?;
    let cookies = before.cookies();
    let cookie = cookies.first().ok_or("no cookie was set")?;

    let load = client.start(&cx, &plane.bootstrap, cookie)?;
    only_at(&load.others, "calls", &NAMES).await?;
    only_at(&load.session, "the session", &[&backend]).await?;
    load.session.none_failed()?;
    match load.cookies().as_slice() {
        [] => Ok(()),
        set => Err(format!("{cookie} was replaced by {set:?}").into()),
    }
}

/// Given a route with two clusters of equal weight,
/// when a session has begun in one of them,
/// then it stays there (A60).
async fn session_keeps_its_weighted_cluster(cx: Context, client: Client) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let resources = [
        routes(&[("blue", 1), ("green", 1)]),
        cluster_with("blue", KEEP_DRAINING),
        cluster_with("green", KEEP_DRAINING),
        assignment("blue", &[&[blue.address]]),
        assignment("green", &[&[green.address]]),
    ];
    let plane = ControlPlane::start(&cx, &resources).await?;
    let load = client.start(&cx, &plane.bootstrap, "")?;
    only_at(&load.others, "calls", &["blue", "green"]).await?;
    settled(&load).await?;
    // From the first call on.
    let counts = load.session.since(0);
    if counts.by_backend.len() != 1 || !counts.failures.is_empty() || load.cookies().len() != 1 {
        return Err(format!("the session: {counts}; cookies: {:?}", load.cookies()).into());
    }
    Ok(())
}
