//! Walks over the folder, each on a thread of its own, because a walk may block without end.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::activity::Activity;
use super::disk::Disk;
use super::message::Message;
use super::scan::{Scan, Walker};
use crate::watches::Watches;

/// The walks over a folder. At most one is awaited.
pub(super) struct Walks {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    watches: Option<Arc<Watches>>,
    inbox: Sender<Message>,
    current: Option<Current>,
    next: u64,
    /// Walks that were given up, with the path that each was at.
    given_up: HashMap<u64, PathBuf>,
}

/// The walk that is awaited.
struct Current {
    walk: u64,
    began: Instant,
    activity: Activity,
}

impl Walks {
    pub(super) fn new(
        root: PathBuf,
        disk: Arc<dyn Disk>,
        watches: Option<Arc<Watches>>,
        inbox: Sender<Message>,
    ) -> Self {
        Self {
            root,
            disk,
            watches,
            inbox,
            current: None,
            next: 0,
            given_up: HashMap::new(),
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Begins a walk. Its result becomes a message.
    pub(super) fn start(&mut self) {
        let walk = self.next;
        self.next += 1;
        let activity = Activity::default();
        let run = {
            let (root, inbox) = (self.root.clone(), self.inbox.clone());
            let (disk, watches) = (Arc::clone(&self.disk), self.watches.clone());
            let unresponsive: BTreeSet<PathBuf> = self.given_up.values().cloned().collect();
            let activity = activity.clone();
            move || {
                if let Some(watches) = &watches {
                    watches.begin_walk();
                }
                let walker = Walker {
                    disk: &*disk,
                    watches: watches.as_deref(),
                    unresponsive: &unresponsive,
                    activity: &activity,
                };
                let scan = walker.walk(&root);
                activity.done();
                // The store was dropped with the receiver.
                let _ = inbox.send(Message::Walked { walk, scan });
            }
        };
        let builder = std::thread::Builder::new().name("oxds-walk".into());
        if builder.spawn(run.clone()).is_err() {
            // The system is out of threads.
            run();
        }
        self.current = Some(Current {
            walk,
            began: Instant::now(),
            activity,
        });
    }

    /// Handles the end of a walk. Returns the scan with its duration if the walk was awaited.
    ///
    /// If the walk was given up, a path that did not respond does so now: then it returns `None`, and a new walk is
    /// due.
    pub(super) fn ended(&mut self, walk: u64, scan: Scan) -> Option<(Scan, Duration)> {
        if self.given_up.remove(&walk).is_some() {
            return None;
        }
        let current = self.current.take_if(|current| current.walk == walk)?;
        Some((scan, current.began.elapsed()))
    }

    /// Gives up a walk that has been at one path for this time. Returns whether it did: then another walk is due, which
    /// leaves out that path.
    pub(super) fn give_up_stuck(&mut self, limit: Duration) -> bool {
        let stuck = self.current.as_ref();
        let stuck =
            stuck.and_then(|current| Some((current.walk, current.activity.stuck_for(limit)?)));
        let Some((walk, path)) = stuck else {
            return false;
        };
        self.given_up.insert(walk, path);
        self.current = None;
        true
    }
}
