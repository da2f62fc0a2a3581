//! A watched folder, and what its store serves.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use oxds_server::dir::Options;
use oxds_server::{DirStore, Store, Update};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{folder, lines, write};
use crate::SOON;

/// A folder store, with the names served so far and the latest findings.
pub(super) struct Watched {
    pub(super) dir: TempDir,
    pub(super) store: DirStore,
    pub(super) served: BTreeSet<String>,
    pub(super) findings: Vec<String>,
}

impl Watched {
    pub(super) async fn start(files: &[(&str, &str)]) -> Self {
        Self::with(folder(files), Options::default()).await
    }

    pub(super) async fn with(dir: TempDir, options: Options) -> Self {
        let store = DirStore::open(dir.path(), options).unwrap();
        let (served, findings) = (BTreeSet::new(), Vec::new());
        let mut watched = Self {
            dir,
            store,
            served,
            findings,
        };
        watched.next().await;
        watched
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        write(self.path(), name, text);
    }

    /// Waits for the next update and applies it. Returns the names that it added or changed, and those that it removed.
    pub(super) async fn next(&mut self) -> (Vec<String>, Vec<String>) {
        let update = timeout(SOON, self.store.next())
            .await
            .expect("no update came")
            .unwrap();
        self.apply(&update)
    }

    pub(super) fn apply(&mut self, update: &Update) -> (Vec<String>, Vec<String>) {
        self.findings = lines(&self.dir, &update.findings);
        let upserts: Vec<_> = update
            .changes
            .upserts
            .iter()
            .map(|r| r.name().to_string())
            .collect();
        let mut removals: Vec<_> = update
            .changes
            .removals
            .iter()
            .map(|(_, name)| name.to_string())
            .collect();
        removals.retain(|name| !upserts.contains(name));
        for name in &removals {
            self.served.remove(name);
        }
        self.served.extend(upserts.iter().cloned());
        (upserts, removals)
    }

    /// Waits for an update with a finding of this rule. Until then nothing may be removed.
    pub(super) async fn finding(&mut self, rule: &str) {
        let found = async {
            loop {
                let update = self.store.next().await.unwrap();
                let (_, removals) = self.apply(&update);
                assert_eq!(removals, [""; 0]);
                if update.findings.iter().any(|finding| finding.rule == rule) {
                    return;
                }
            }
        };
        timeout(SOON, found).await.expect("no such finding");
    }

    /// Waits for an update that adds or changes something. Nothing may be removed, then or before.
    pub(super) async fn upserts(&mut self) -> Vec<String> {
        loop {
            let (mut upserts, removals) = self.next().await;
            assert_eq!(removals, [""; 0]);
            if !upserts.is_empty() {
                upserts.sort();
                return upserts;
            }
        }
    }

    /// Asserts that no further update changes anything: the previous save was one change set, not two.
    pub(super) async fn assert_quiet(&mut self) {
        // Ten times the quiet period.
        if let Ok(Some(update)) = timeout(Duration::from_millis(500), self.store.next()).await {
            assert!(update.changes.is_empty(), "{update:?}");
        }
    }

    pub(super) fn serves(&self, expected: &[&str]) {
        assert_eq!(
            self.served.iter().map(String::as_str).collect::<Vec<_>>(),
            expected
        );
    }
}
