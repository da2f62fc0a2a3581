//! Backups of a cluster, and their restoration by the tool of its release.

use std::path::Path;

use tokio::process::Command;

use super::{Etcd, Release};
use crate::Fallible;
use crate::process::output;

/// Revisions that `--bump-revision` adds, as etcd's documentation advises.
const BUMP: &str = "1000000000";

impl Etcd {
    /// Saves the data of the first member to a file.
    pub(crate) async fn back_up(&self, file: &Path) -> Fallible {
        let [first, ..] = self.members.as_slice() else {
            return Err("a cluster has a member".into());
        };
        let file = file.to_str().ok_or("a path in UTF-8")?;
        let (url, arguments) = (first.url(), ["snapshot", "save", file]);
        self.etcdctl_at(&url, &arguments).await.map(drop)
    }

    /// Replaces all members by members with the data of a backup, at the same addresses. With `is_bumped`, revisions
    /// continue far after those that were ever used, and all of them are compacted.
    pub(crate) async fn restore(&mut self, file: &Path, is_bumped: bool) -> Fallible {
        self.kill().await?;
        for member in &mut self.members {
            let folder = member.site.data.with_extension("restored");
            if folder.exists() {
                std::fs::remove_dir_all(&folder)?;
            }
            let mut command = Command::new(&self.restorer);
            // etcdctl of 3.4; other programs ignore it.
            command.env("ETCDCTL_API", "3");
            command.args(["snapshot", "restore"]).arg(file);
            command.args(["--name", &member.site.name]);
            command.args(["--initial-cluster", &member.cluster]);
            let url = member.site.peer_url();
            command.args(["--initial-advertise-peer-urls", &url]);
            command.arg("--data-dir").arg(&folder);
            match (is_bumped, self.release) {
                (false, _) => {}
                (true, Release::Current) => {
                    command.args(["--bump-revision", BUMP, "--mark-compacted"]);
                }
                (true, Release::Debian) => {
                    return Err("etcd 3.4 cannot bump revisions".into());
                }
            }
            output(command).await?;
            member.move_data(folder);
            member.restart()?;
        }
        Ok(())
    }
}
