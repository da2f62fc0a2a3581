//! Tokens that expire, permissions, and TLS.

use std::ffi::OsString;

use oxds_server::store::etcd::client::{
    ClientOptions, Endpoints, EtcdClient, EtcdTlsFiles, Reason, User,
};
use oxds_testkit::certificates::{Authority, replace};

use super::shared::{equal, put, read, watch};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release, Setup};
use crate::{Context, Fallible};

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    vec![
        Scenario::new(name("g31_expired_tokens_are_renewed"), move |cx| {
            tokens(cx, release)
        }),
        Scenario::new(
            name("g32_tls_files_are_checked_and_read_again"),
            move |cx| tls(cx, release),
        ),
    ]
}

async fn tokens(cx: Context, release: Release) -> Fallible {
    let ttl: [OsString; 2] = ["--auth-token-ttl".into(), "2".into()];
    let etcd = Etcd::start(&cx, release, &ttl).await?;
    etcd.connect().await?;
    for command in [
        &["user", "add", "root:root"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "replica"],
        &[
            "role",
            "grant-permission",
            "replica",
            "readwrite",
            "--prefix",
            "/oxds/",
        ],
        &["user", "add", "replica:secret"],
        &["user", "grant-role", "replica", "replica"],
        &["auth", "enable"],
    ] {
        etcd.etcdctl(command).await?;
    }
    let member = &etcd.members[0];
    let user = |password: &str| User {
        name: "replica".to_owned(),
        password: password.to_owned(),
    };
    let client = member
        .connect(&member.plain()?.user(user("secret")))
        .await?;
    client.put(put("/oxds/a", "1")).await?;
    let (mut running, _) = client.watch(watch("/oxds/", 0)).await?;

    // A token that is not used expires. A watch with it continues.
    member
        .logs(&["deleted a simple token", "replica"], SOON)
        .await?;
    let other = member
        .connect(&member.plain()?.user(user("secret")))
        .await?;
    other.put(put("/oxds/a", "2")).await?;
    let seen = tokio::time::timeout(SOON, running.next()).await??;
    equal("events", seen.events.len(), 1)?;
    // A new watch with it is denied in 3.4 (etcd#12385), and the client renews the token in all versions.
    let (_, created) = client.watch(watch("/oxds/", 0)).await?;
    equal("watch", created.canceled, false)?;
    client.range(read("/oxds/")).await?;

    let wide = client.range(read("/")).await.err();
    let text = wide.map(|error| error.to_string()).unwrap_or_default();
    equal(
        "read",
        text.contains(r#"READ on the keys from "/" to "0""#),
        true,
    )?;
    let wide = client.watch(watch("/", 0)).await.err();
    let text = wide.map(|error| error.to_string()).unwrap_or_default();
    equal(
        "watch",
        text.contains(r#"READ on the keys from "/" to "0""#),
        true,
    )?;

    let endpoint = member.url().parse()?;
    let wrong = EtcdClient::connect(&endpoint, &member.plain()?.user(user("wrong"))).await;
    let reason = wrong.err().map(|error| error.reason().clone());
    equal(
        "password",
        reason,
        Some(Reason::WrongPassword("replica".to_owned())),
    )?;
    // etcd 3.4 returns its state without a user.
    let anonymous = EtcdClient::connect(&endpoint, &member.plain()?).await;
    let refused = match anonymous {
        Ok(client) => client.range(read("/oxds/")).await.err(),
        Err(error) => Some(error),
    };
    let is_named =
        refused.is_some_and(|error| matches!(error.reason(), Reason::Unauthenticated(_)));
    equal("no user is named", is_named, true)
}

async fn tls(cx: Context, release: Release) -> Fallible {
    let authority = Authority::new("etcd")?;
    let file = |name: &str| cx.dir.join(name);
    replace(&file("ca.pem"), &authority.pem())?;
    authority.issue(&["127.0.0.1"])?.write(&cx.dir, "server")?;
    authority.issue(&["replica"])?.write(&cx.dir, "client")?;
    let files = [
        ("--cert-file", "server.pem"),
        ("--key-file", "server.key"),
        ("--trusted-ca-file", "ca.pem"),
    ];
    let files = files
        .into_iter()
        .flat_map(|(option, name)| [option.into(), file(name).into()]);
    let options: Vec<OsString> = files.chain(["--client-cert-auth".into()]).collect();
    let setup = Setup {
        options: &options,
        is_secure: true,
        ..Setup::default()
    };
    let etcd = Etcd::start_as(&cx, release, setup).await?;
    let member = &etcd.members[0];
    let endpoints: Endpoints = member.url().parse()?;
    let client_files = |ca: &str, identity: bool| EtcdTlsFiles {
        ca: Some(file(ca)),
        identity: identity.then(|| (file("client.pem"), file("client.key"))),
    };
    let options = |files| {
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
            ClientOptions::new(&endpoints, Some(files))?.timeout(SOON),
        )
    };
    let good = options(client_files("ca.pem", true))?;
    let client = member.connect(&good).await?;
    client.put(put("/a", "1")).await?;

    let other = Authority::new("other")?;
    replace(&file("other.pem"), &other.pem())?;
    let fault = async |options: &ClientOptions| -> Fallible<String> {
        let endpoint = member.url().parse()?;
        let error = EtcdClient::connect(&endpoint, options).await.err();
        Ok(error.map(|error| error.to_string()).unwrap_or_default())
    };
    let names = async |what: &str, options: &ClientOptions, text: &str| -> Fallible {
        let fault = fault(options).await?;
        if fault.contains(text) {
            Ok(())
        } else {
            Err(format!("{what}: {fault:?}, expected {text:?}").into())
        }
    };
    let wrong = options(client_files("other.pem", true))?;
    names("authority", &wrong, "of an unknown authority").await?;
    let none = options(client_files("ca.pem", false))?;
    names("no certificate", &none, "rejects this client's certificate").await?;
    // etcd reads its files again for each handshake. New options have no session to resume, which would need no
    // certificate.
    let fresh = || options(client_files("ca.pem", true));
    other.issue(&["127.0.0.1"])?.write(&cx.dir, "server")?;
    names("replaced server", &fresh()?, "of an unknown authority").await?;
    authority
        .issue(&["other.example"])?
        .write(&cx.dir, "server")?;
    names("name", &fresh()?, "has another name than its URL").await?;
    authority
        .issue_expired(&["127.0.0.1"])?
        .write(&cx.dir, "server")?;
    names("expired", &fresh()?, "has expired").await?;
    authority.issue(&["127.0.0.1"])?.write(&cx.dir, "server")?;
    EtcdClient::connect(&member.url().parse()?, &good)
        .await?
        .put(put("/a", "2"))
        .await?;
    client.put(put("/a", "3")).await?;
    Ok(())
}
