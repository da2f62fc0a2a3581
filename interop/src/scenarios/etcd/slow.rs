//! Disks that are slow or full (G-30).
//!
//! Both need more than other scenarios: `strace` must be allowed to trace the member (ptrace), and `mount` to make a
//! file system in memory (root). CI has both. A machine that forbids one fails the scenario with the reason: nothing
//! else makes a member wait in `fdatasync`, or gives it a disk that is full.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::shared::{Content, InEtcd, put};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Member, Release};
use crate::peers::replica::Replica;
use crate::process::{Process, output};
use crate::subscriber::Subscriber;
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Size of the file system: etcd allocates 64 MB for its log, and needs more to start.
const DISK: &str = "size=170m";
/// Writes, of 1 MiB each, after which a member on the full disk has ended: more than its log has space for.
const MEGABYTES: usize = 150;
/// A publish on slow disks, or after an election.
const SLOW: Duration = Duration::from_secs(60);

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    vec![
        Scenario::new(name("g30_slow_fsync_delays_publishes"), move |cx| {
            slow(cx, release)
        }),
        Scenario::new(name("g30_full_disk_ends_one_member"), move |cx| {
            full(cx, release)
        }),
    ]
}

/// given members whose `fdatasync` takes 300 ms / when publishes are made / then they succeed, the replica serves them
/// in order, and its clients get each once.
async fn slow(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.replace(&[("a", "0")]).await?;
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "0")], SOON).await?;
    let mut tracers = Vec::new();
    for (index, member) in etcd.members.iter_mut().enumerate() {
        tracers.push(delay(&cx, member, index).await?);
    }
    for (seq, text) in [(2, "1"), (3, "2"), (4, "3")] {
        let mark = client.mark();
        content.set(&[("a", text)])?;
        let text_of_success = format!("published {seq} ");
        content.command(&[]).succeeds(&[&text_of_success]).await?;
        client.has_only(&[("a", text)], SLOW).await?;
        client.received_once(mark, &[("a", text)], &[])?;
    }
    replica.is_ready(true, SOON).await?;
    drop(tracers);
    for index in 0..etcd.members.len() {
        let calls = std::fs::read_to_string(calls(&cx, index))?;
        if !calls.contains("DELAYED") {
            return Err(format!("no fdatasync of member {index} was delayed: {calls}").into());
        }
    }
    InEtcd::read(&urls).await?.expect(4, &["a"])
}

/// File in which the tracer of a member writes its calls.
fn calls(cx: &Context, index: usize) -> PathBuf {
    cx.dir.join(format!("strace-{index}.calls"))
}

/// Delays each `fdatasync` of a member, until the tracer is dropped.
async fn delay(cx: &Context, member: &mut Member, index: usize) -> Fallible<Process> {
    let name = format!("strace-{index}");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "signal=none", "-e", "trace=fdatasync"]);
    command.args(["-e", "inject=fdatasync:delay_enter=300000"]);
    command.arg("-p").arg(member.process()?.id()?.to_string());
    command.arg("-o").arg(calls(cx, index));
    let mut tracer = Process::spawn(&name, command, &cx.dir, |_| ())?;
    until("a traced member", SLOW, async || {
        let log = std::fs::read_to_string(cx.dir.join(format!("{name}.log")))?;
        if let Err(ended) = tracer.running() {
            let reason = format!("{ended}: this machine forbids tracing: {log}");
            return Ok(Some(Err(reason)));
        }
        Ok(log.contains(" attached").then_some(Ok(())))
    })
    .await??;
    Ok(tracer)
}

/// A file system in memory. Dropping it unmounts it.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    async fn mount(folder: &'a Path) -> Fallible<Self> {
        std::fs::create_dir_all(folder)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", DISK, "oxds-interop"]);
        command.arg(folder);
        let mounted = output(command).await;
        mounted.map_err(|error| format!("this machine forbids mounting: {error}"))?;
        Ok(Self(folder))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        // Lazily: a member may still have its files open. A failure leaves a folder behind, which people see.
        let _ = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(self.0)
            .status();
    }
}

/// given three members, one of them on a small disk / when that is full / then this member exits, the others continue,
/// the replica serves, and publishes succeed.
async fn full(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    // A follower: the death of the leader is another scenario.
    let leader = etcd.leader().await?;
    let poor = (leader + 1) % 3;
    let folder = cx.dir.join("disk");
    let disk = Disk::mount(&folder).await?;
    let member = &mut etcd.members[poor];
    let options = member.plain()?;
    member.kill().await?;
    member.copy_data(folder.join("data")).await?;
    member.restart()?;
    member.connect(&options).await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.replace(&[("a", "0")]).await?;
    let poor_url = etcd.members[poor].url();
    let rest = etcd.members.iter().map(Member::url);
    let rest: Vec<_> = rest.filter(|url| *url != poor_url).collect();
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "0")], SOON).await?;
    let mark = client.mark();

    let writer = Content::new(&cx, "content", &rest.join(","))?;
    fill(&folder)?;
    // Its log needs space with the next writes.
    let member = &etcd.members[leader];
    let direct = member.connect(&member.plain()?).await?;
    let value = "x".repeat(1 << 20);
    let poor = etcd.members[poor].process()?;
    for _ in 0..MEGABYTES {
        direct.put(put("/fill", &value)).await?;
        if poor.running().is_err() {
            break;
        }
    }
    poor.ends(SLOW).await?;

    writer.replace(&[("a", "1")]).await?;
    client.has_only(&[("a", "1")], SLOW).await?;
    client.received_once(mark, &[("a", "1")], &[])?;
    replica.is_ready(true, SOON).await?;
    InEtcd::read(&rest.join(",")).await?.expect(2, &["a"])?;
    drop(etcd);
    drop(disk);
    Ok(())
}

/// Writes a file until the disk is full.
fn fill(folder: &Path) -> Fallible {
    use std::io::Write as _;
    let mut file = std::fs::File::create(folder.join("ballast"))?;
    let block = vec![0; 1 << 20];
    loop {
        if let Err(error) = file.write_all(&block) {
            return match error.kind() {
                std::io::ErrorKind::StorageFull => Ok(()),
                _ => Err(error.into()),
            };
        }
    }
}
