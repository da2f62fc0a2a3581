//! Replicas and writers with users, with TLS, and at addresses without an etcd (G-31, G-32, G-33).

use std::ffi::OsString;
use std::time::Duration;

use oxds_testkit::certificates::{Authority, replace};
use tokio::process::Command;

use super::shared::Content;
use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::gate::Gate;
use crate::peers::etcd::{Etcd, Release, Setup};
use crate::peers::oxds::Oxds;
use crate::peers::replica::{Replica, ended};
use crate::process::Process;
use crate::subscriber::Subscriber;
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// From a restart of etcd until a replica has connected again.
const RETURN: Duration = Duration::from_secs(60);

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    let mut scenarios = vec![
        Scenario::new(name("g31_replica_outlives_its_token"), move |cx| {
            users(cx, release)
        }),
        Scenario::new(name("g32_replica_follows_new_certificates"), move |cx| {
            certificates(cx, release)
        }),
    ];
    if release == Release::Current {
        let what = "etcd_g33_other_programs_are_refused_at_start";
        scenarios.push(Scenario::new(what.to_owned(), programs));
    }
    scenarios
}

/// The commands of `docs/replicas.md` for a replica's role, and those for a writer's.
const ROLES: [&[&str]; 17] = [
    &["user", "add", "root:root"],
    &["user", "grant-role", "root", "root"],
    &["role", "add", "replica"],
    &[
        "role",
        "grant-permission",
        "replica",
        "--prefix=true",
        "read",
        "/oxds/default/",
    ],
    &[
        "role",
        "grant-permission",
        "replica",
        "--prefix=true",
        "readwrite",
        "/oxds/default/x/",
    ],
    &[
        "role",
        "grant-permission",
        "replica",
        "--prefix=true",
        "readwrite",
        "/oxds/default/n/",
    ],
    &[
        "role",
        "grant-permission",
        "replica",
        "--prefix=true",
        "readwrite",
        "/oxds/default/w/",
    ],
    &["user", "add", "replica:secret"],
    &["user", "grant-role", "replica", "replica"],
    &["role", "add", "writer"],
    &[
        "role",
        "grant-permission",
        "writer",
        "--prefix=true",
        "read",
        "/oxds/default/",
    ],
    &[
        "role",
        "grant-permission",
        "writer",
        "--prefix=true",
        "readwrite",
        "/oxds/default/l/main/",
    ],
    &[
        "role",
        "grant-permission",
        "writer",
        "readwrite",
        "/oxds/default/lock/main",
    ],
    &[
        "role",
        "grant-permission",
        "writer",
        "readwrite",
        "/oxds/default/format",
    ],
    &["user", "add", "writer:secret"],
    &["user", "grant-role", "writer", "writer"],
    &["auth", "enable"],
];

/// given users with the documented roles, and tokens that expire after 2 s / when the token of a replica has expired /
/// then its watch continues; after a lost connection it gets another token and follows. A writer cannot write another
/// lane. A permission that is revoked shows with its keys at the next connection, and the replica keeps serving.
async fn users(cx: Context, release: Release) -> Fallible {
    let ttl: [OsString; 2] = ["--auth-token-ttl".into(), "2".into()];
    let etcd = Etcd::start(&cx, release, &ttl).await?;
    etcd.connect().await?;
    for command in ROLES {
        etcd.etcdctl(command).await?;
    }
    let password = cx.dir.join("password");
    std::fs::write(&password, "secret\n")?;
    let file = password.to_str().ok_or("a path in UTF-8")?;
    let writer = ["--etcd-user", "writer", "--etcd-password-file", file];
    let content = Content::new(&cx, "content", &etcd.urls())?;
    content.set(&[("a", "1")])?;
    content
        .command(&[])
        .run()
        .await?
        .expect(1, &["authentication"])?;
    content.publish(&writer).await?;
    let other: Vec<_> = writer.into_iter().chain(["--lane", "other"]).collect();
    content.set(&[("b", "1")])?;
    let denied = content.command(&other).run().await?;
    denied.expect(1, &["permission denied", "l/other/"])?;

    let gate = Gate::before(etcd.members[0].address).await?;
    let user = ["--etcd-user", "replica", "--etcd-password-file", file].map(OsString::from);
    let replica = Replica::start_with(&cx, &gate.url(), "replica", &user).await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "1")], SOON).await?;
    replica.finds_no("status-key", SOON).await?;
    // A token that is not used expires; its watch continues.
    let member = &etcd.members[0];
    member
        .logs(&["deleted a simple token", "writer"], SOON)
        .await?;
    content.set(&[("a", "2")])?;
    content.publish(&writer).await?;
    client.has_only(&[("a", "2")], SOON).await?;
    gate.cut_all();
    content.set(&[("a", "3")])?;
    content.publish(&writer).await?;
    client.has_only(&[("a", "3")], RETURN).await?;
    replica.serves(3, RETURN).await?;

    let revoke = [
        "role",
        "revoke-permission",
        "replica",
        "/oxds/default/",
        "/oxds/default0",
    ];
    let root = ["--user", "root:root"];
    let revoke: Vec<_> = root.into_iter().chain(revoke).collect();
    etcd.etcdctl(&revoke).await?;
    gate.cut_all();
    let is_denied = |store: &serde_json::Value| {
        let cause = store["cause"].as_str().unwrap_or_default();
        ["permission", "READ", "/oxds/default/"]
            .iter()
            .all(|text| cause.contains(text))
    };
    replica
        .shows("the missing permission", RETURN, is_denied)
        .await?;
    replica.is_ready(true, SOON).await?;
    let mut again = root.to_vec();
    again.extend(ROLES[3]);
    etcd.etcdctl(&again).await?;
    replica.serves(3, RETURN).await
}

/// given etcd with TLS and client certificates / when all files are replaced and etcd starts again / then the replica
/// connects with the new ones, without a restart. With old files it says what is wrong, and there is no plaintext.
async fn certificates(cx: Context, release: Release) -> Fallible {
    let file = |name: &str| cx.dir.join(name);
    let issue = |authority: &Authority| -> Fallible {
        replace(&file("ca.pem"), &authority.pem())?;
        authority.issue(&["127.0.0.1"])?.write(&cx.dir, "server")?;
        authority.issue(&["replica"])?.write(&cx.dir, "client")?;
        Ok(())
    };
    let old = Authority::new("old")?;
    issue(&old)?;
    let options = [
        ("--cert-file", "server.pem"),
        ("--key-file", "server.key"),
        ("--trusted-ca-file", "ca.pem"),
    ];
    let options = options
        .into_iter()
        .flat_map(|(option, name)| [option.into(), file(name).into()]);
    let options: Vec<OsString> = options.chain(["--client-cert-auth".into()]).collect();
    let setup = Setup {
        options: &options,
        is_secure: true,
        ..Setup::default()
    };
    let mut etcd = Etcd::start_as(&cx, release, setup).await?;
    let ours = [
        ("--etcd-ca", "ca.pem"),
        ("--etcd-cert", "client.pem"),
        ("--etcd-key", "client.key"),
    ];
    let ours = ours
        .into_iter()
        .flat_map(|(option, name)| [option.into(), file(name).into()]);
    let ours: Vec<OsString> = ours.collect();
    let publish: Vec<_> = ours.iter().filter_map(|word| word.to_str()).collect();
    let content = Content::new(&cx, "content", &etcd.urls())?;
    content.set(&[("a", "1")])?;
    until("the first publish", RETURN, async || {
        content.publish(&publish).await?;
        Ok(Some(()))
    })
    .await?;
    let replica = Replica::start_with(&cx, &etcd.urls(), "replica", &ours).await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "1")], SOON).await?;

    // Only etcd has new files: the replica does not trust it.
    let new = Authority::new("new")?;
    let kept = std::fs::read(file("ca.pem"))?;
    etcd.kill().await?;
    issue(&new)?;
    std::fs::write(file("old.pem"), kept)?;
    etcd.restart()?;
    let with_old = [
        "--etcd-ca".to_owned(),
        file("old.pem").display().to_string(),
    ];
    let with_old: Vec<_> = with_old.iter().map(String::as_str).collect();
    until_text(&content, &with_old, "of an unknown authority").await?;
    // The replica reads its files for each connection.
    replica.serves(1, RETURN).await?;
    content.set(&[("a", "2")])?;
    content.publish(&publish).await?;
    client.has_only(&[("a", "2")], SOON).await?;

    let plain = Content::new(&cx, "content", &etcd.urls().replace("https", "http"))?;
    let refused = plain.command(&[]).run().await?;
    refused.expect(1, &["not published"])
}

/// Publishes until etcd is there again and refuses with this text.
async fn until_text(content: &Content, options: &[&str], text: &str) -> Fallible {
    until(text, RETURN, async || {
        content.command(options).run().await?.expect(1, &[text])?;
        Ok(Some(()))
    })
    .await
}

/// given addresses with another gRPC server, with a management server and with kine / when a replica starts or a writer
/// publishes / then both end with an error that says that this is not an etcd; kine is named.
async fn programs(cx: Context) -> Fallible {
    let backend = Backend::start("a").await?;
    let content = Content::new(&cx, "content", "")?;
    content.set(&[("a", "1")])?;
    let folder = crate::config::Folder::create(&cx.dir)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let mut kine = Command::new(&cx.programs.etcd.kine);
    kine.arg("127.0.0.1:0");
    let mut kine = Process::spawn("kine", kine, &cx.dir, |_| ())?;
    let part_of_etcd = kine.line("listening ", RETURN).await?.parse()?;
    // A port that closes the connection without a word, as that of HTTP/1 does, may also be a member that starts.
    for (address, says) in [
        (backend.address, "not an etcd"),
        (oxds.grpc, "not an etcd"),
        (
            part_of_etcd,
            "not an etcd: it reports neither cluster nor member; kine",
        ),
    ] {
        let url = format!("http://{address}");
        let mut command = Command::new(&cx.programs.oxds);
        command.args(["serve", "--etcd", &url]);
        command.args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        command
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true);
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::process::Stdio::piped());
        let serve = ended(command.spawn()?).await?;
        serve.expect(1, &["error: --etcd: ", says, &url])?;
        let writer = Content::of(&cx, &cx.dir.join("content"), &url);
        let refused = writer.command(&[]).run().await?;
        refused.expect(1, &[says, &url])?;
    }
    Ok(())
}
