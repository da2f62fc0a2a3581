//! The status page in a real browser.

use std::time::Duration;

use tokio::process::Command;

use super::{SOON, Scenario};
use crate::config::{Folder, api_listener, assignment, cluster, routes};
use crate::peers::etcd::{Etcd, Release};
use crate::peers::oxds::Oxds;
use crate::peers::replica::{Publish, Replica};
use crate::process::Process;
use crate::{Context, Fallible};

/// From the start of the browser to the last check: it renders a few dozen pages.
const LIMIT: Duration = Duration::from_secs(180);

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("status_page_in_chromium".to_owned(), |cx| {
        is_usable(cx)
    })]
}

/// Given a server with 232 clients, two of which NACK and one of which has names that are HTML,
/// when a browser opens the status page,
/// then it loads, sorts, filters, follows an edit, shows a NACK, a resource, the graph and the history; that of a
/// replica shows both replicas; it fits a phone, has dark colours, is readable without a script, and runs no script of
/// others (`peers/node/page.js`). Pictures of the page are beside the runner.
async fn is_usable(cx: Context) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    let (blue, green) = ("127.0.0.1:1".parse()?, "127.0.0.1:2".parse()?);
    let mesh = [
        api_listener(),
        routes(&[("shop", 3), ("cart", 1)]),
        cluster("shop"),
        cluster("cart"),
        assignment("shop", &[&[blue], &[green]]),
        assignment("cart", &[&[green]]),
    ];
    folder.write("mesh.yaml", &mesh)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let etcd = Etcd::start(&cx, Release::Current, &[]).await?;
    etcd.connect().await?;
    let mut replicas = Vec::new();
    for number in 0..2 {
        let name = format!("replica-{number}");
        replicas.push(Replica::with_state(&cx, &etcd.urls(), &name).await?);
    }
    let published = Folder::create(&cx.dir.join("published"))?;
    for (seq, note) in [(1, "first"), (2, "<b>second</b> publish")] {
        let content = [cluster("shop"), assignment("shop", &[&[blue]])];
        published.write("mesh.yaml", &content[..seq])?;
        let publish = Publish {
            cx: &cx,
            urls: &etcd.urls(),
            folder: published.path(),
            options: &["--note", note],
        };
        publish.succeeds(&[]).await?;
        for replica in &replicas {
            replica.serves(seq as u64, SOON).await?;
        }
    }
    let [replica, _] = &replicas[..] else {
        return Err("two replicas were started".into());
    };
    // They stay, for people to look at.
    let pictures = std::env::current_exe()?.with_file_name("status-page-pictures");
    if pictures.exists() {
        std::fs::remove_dir_all(&pictures)?;
    }
    let mut command = Command::new("node");
    command
        .arg(&cx.programs.node.page)
        .arg(format!("http://{}", oxds.http))
        .args([folder.path(), &pictures])
        .arg(format!("http://{}", replica.http))
        .env("NODE_PATH", &cx.programs.node.modules)
        .env("CHROMIUM", &cx.programs.node.chromium);
    let mut browser = Process::spawn("browser", command, &cx.dir, |_| {})?;
    browser.line("done", LIMIT).await?;
    Ok(())
}
