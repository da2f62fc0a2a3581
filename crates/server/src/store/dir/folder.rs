//! The thread of a folder: follows its files, and merges them into updates.
//!
//! ```text
//!            quiet for 50 ms, or 500 ms after the first event
//!  events ──────────────────┬── files ─────────────────────────▶ batch of reads ──▶ settled? ──▶ Documents ──▶ Update
//!                           └── folders, unknown ──▶ walk ──▶ files ──┘      └── not yet: read again later
//! ```
//!
//! The thread itself never reads a file. Batches overtake each other: a file that takes seconds delays only the files
//! that were saved together with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use oxds_types::file::Stamp;

use super::batches::{Batch, Files};
use super::changes::Changes;
use super::disk::Disk;
use super::events::{Dirty, Events, Pending};
use super::message::{Message, Outcome};
use super::options::{Options, Progress};
use super::reader::{FileToRead, Reader};
use super::replacement::{Decision, Replacement};
use super::scan::Scan;
use super::settling::Writer;
use super::walks::Walks;
use crate::store::documents::{Document, DocumentId, DocumentOptions, Documents, Edits};
use crate::store::finding::{Finding, Severity};
use crate::store::update::Update;
use crate::store::uses::DeprecatedUses;
use crate::watches::{Unwatched, Watches};

/// The time between two walks over all files. Some file systems report nothing (network mounts, targets of links that
/// lie outside of the folder), so a walk finds what was missed.
const RESCAN: Duration = Duration::from_secs(30);
/// The time between two walks if some folders are not watched.
const POLL: Duration = Duration::from_secs(1);
/// A walk takes at most this part of one core: 1/200.
const RESCAN_SHARE: u32 = 200;
/// With folders that are not watched, it takes at most 1/20.
const POLL_SHARE: u32 = 20;
/// The time after which a read or a walk that has not returned is reported, and no longer waited for.
pub(super) const NO_RESPONSE: Duration = Duration::from_secs(5);

/// Receives updates. Returns whether more are wanted.
pub(super) type Sink = Box<dyn FnMut(Update) -> bool + Send>;

/// The surroundings of a folder.
pub(super) struct Setup {
    pub(super) root: PathBuf,
    pub(super) options: Options,
    pub(super) disk: Arc<dyn Disk>,
    /// Whether changes are followed.
    pub(super) watch: bool,
    /// The largest number of findings of an update; others are counted.
    pub(super) max_findings: usize,
    pub(super) no_response: Duration,
    pub(super) sink: Sink,
}

/// A folder and the state of its files.
pub(super) struct Folder {
    root: PathBuf,
    progress: Option<Progress>,
    quiet: Duration,
    no_response: Duration,
    sink: Sink,
    inbox: Receiver<Message>,
    watched: Option<Watched>,
    changes: Changes,
    walks: Walks,
    /// Whether the next walk must read all files, whatever their stamp.
    read_all: bool,
    replacement: Replacement,
    reader: Reader,
    files: Files,
    documents: Documents,
    published: Published,
}

/// The sources of events.
struct Watched {
    events: Arc<Events>,
    watches: Arc<Watches>,
    /// The time of the next walk without an event.
    rescan: Instant,
}

/// The part of the latest update that decides whether another one is due.
#[derive(Default)]
struct Published {
    loaded: bool,
    /// Whether documents of an earlier process are served.
    is_restored: bool,
    findings: Vec<Finding>,
    deprecated_uses: DeprecatedUses,
    /// Findings of the latest walk.
    walk: Vec<Finding>,
    waiting: Vec<Finding>,
}

impl Folder {
    pub(super) fn new(setup: Setup) -> (Self, Sender<Message>) {
        let Options {
            codec,
            strict,
            allow_empty,
            quiet,
            last_good,
            progress,
        } = setup.options;
        let (own, inbox) = channel();
        let root = setup.root;
        let watched = setup.watch.then(|| {
            let events = Arc::new(Events::new(&root, own.clone()));
            let handler = Arc::clone(&events);
            let watcher = setup
                .disk
                .watcher(Box::new(move |event| handler.handle(event)));
            Watched {
                watches: Arc::new(Watches::start(watcher)),
                events,
                rescan: Instant::now() + RESCAN,
            }
        });
        let watches = watched.as_ref().map(|watched| Arc::clone(&watched.watches));
        let mut documents = Documents::new(
            &root,
            DocumentOptions {
                codec,
                strict,
                allow_empty,
                max_findings: setup.max_findings,
            },
        );
        let mut files = Files::default();
        if let Some(last_good) = &last_good {
            documents.restore(last_good);
            // Whatever the files are now, they have another stamp.
            let restored = documents.ids().map(|id| (Arc::clone(id), Stamp::default()));
            files.stamps = restored.collect();
        }
        let disk = setup.disk;
        let folder = Self {
            progress,
            quiet,
            no_response: setup.no_response,
            sink: setup.sink,
            inbox,
            watched,
            changes: Changes::default(),
            walks: Walks::new(root.clone(), Arc::clone(&disk), watches, own.clone()),
            read_all: true,
            replacement: Replacement::new(allow_empty, last_good.is_some()),
            reader: Reader::new(disk, documents.shared_decoder(), own.clone()),
            files,
            documents,
            published: Published {
                is_restored: last_good.is_some(),
                ..Published::default()
            },
            root,
        };
        (folder, own)
    }

    /// Returns the number of files.
    pub(super) fn files(&self) -> usize {
        self.files.stamps.len()
    }

    /// Reads the folder, and follows it until the store is dropped or no more updates are wanted.
    pub(super) fn run(&mut self) {
        self.walks.start();
        loop {
            let now = Instant::now();
            let message = match self.next_turn() {
                Some(at) => self.inbox.recv_timeout(at.saturating_duration_since(now)),
                None => self.inbox.recv().map_err(RecvTimeoutError::from),
            };
            match message {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !self.turn() {
                return;
            }
        }
    }

    /// Returns the time of the next turn without a message.
    fn next_turn(&self) -> Option<Instant> {
        let busy = self.walks.is_busy() || self.reader.is_busy();
        let supervision = busy.then(|| Instant::now() + self.no_response / 4);
        let rescan = self.watched.as_ref().map(|watched| watched.rescan);
        let idle_rescan = rescan.filter(|_| !self.walks.is_busy());
        let times = [
            self.changes.due(self.quiet),
            self.files.settling.next_due(),
            self.replacement.due(),
            idle_rescan,
            supervision,
        ];
        times.into_iter().flatten().min()
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Events => {
                let Some(watched) = &self.watched else { return };
                let pending = watched.events.take();
                for folder in &pending.lost {
                    watched.watches.forget(folder);
                }
                self.changes.add(pending, Instant::now());
            }
            Message::Reload => self
                .changes
                .add(Pending::of(Dirty::Everything), Instant::now()),
            Message::Policy(policy) => {
                let changed = self.documents.set_policy(&policy);
                if !changed.is_empty() {
                    self.begin(changed, Vec::new(), false);
                }
            }
            // What it is can be seen by a walk only, and there is no pause to wait for.
            Message::FolderChanged => self.walk(false),
            Message::Walked { walk, scan } => match self.walks.ended(walk, scan) {
                Some((scan, took)) => self.walked(scan, took),
                None => self.walk(false),
            },
            Message::Read { id, outcome } => self.read(id, outcome),
            Message::Stop => {}
        }
    }

    /// Does what is due. Returns whether more updates are wanted.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        if self.changes.due(self.quiet).is_some_and(|at| at <= now) {
            self.changed(now);
        }
        let due = self.files.settling.due(now);
        if !due.is_empty() {
            self.begin(due, Vec::new(), false);
        }
        if self.replacement.due().is_some_and(|at| at <= now) {
            self.walk(false);
        }
        let rescan = self.watched.as_ref().map(|watched| watched.rescan);
        if rescan.is_some_and(|at| at <= now) {
            self.walk(false);
        }
        self.supervise();
        self.complete()
    }

    /// Looks at the files that changed.
    fn changed(&mut self, now: Instant) {
        let dirty = self.changes.take();
        match dirty {
            None => {}
            Some(Dirty::Stamps) => self.walk(false),
            // One file of a folder that replaces another one does not show how the others are.
            Some(Dirty::Files(_)) if self.replacement.is_held() => self.walk(false),
            Some(Dirty::Everything) => self.walk(true),
            Some(Dirty::Files(files)) => {
                let settling = &mut self.files.settling;
                let files = files
                    .into_iter()
                    .map(|(path, writer)| (DocumentId::from(path), writer));
                let ready = files.filter(|(id, writer)| settling.event(id, *writer, now));
                let ready: Vec<_> = ready.map(|(id, _)| id).collect();
                self.begin(ready, Vec::new(), false);
            }
        }
    }

    /// Begins a walk, or another one after the present one.
    fn walk(&mut self, read_all: bool) {
        self.read_all |= read_all;
        self.replacement.looked();
        if let Some(watched) = &mut self.watched {
            // The real time follows at the end of the walk.
            watched.rescan = Instant::now() + RESCAN;
        }
        if self.walks.is_busy() {
            self.changes.walk_again(read_all);
        } else {
            self.walks.start();
        }
    }

    fn walked(&mut self, mut scan: Scan, took: Duration) {
        if let Some(watched) = &mut self.watched {
            if let Some(folder) = &scan.folder {
                watched.events.set_real(&folder.path);
                watched.watches.retain_below(&folder.path);
            }
            let known = |path: &Path| scan.has_finding(&self.root, path);
            let unwatched = watched.watches.unwatched(known);
            let unwatched = unwatched.map(|unwatched| polled(&self.root, &unwatched));
            let (interval, share) = match unwatched {
                None => (RESCAN, RESCAN_SHARE),
                Some(_) => (POLL, POLL_SHARE),
            };
            watched.rescan = Instant::now() + interval.max(took * share);
            let stamps = &self.files.stamps;
            let decision = self
                .replacement
                .decide(&mut scan, &self.root, stamps, self.quiet);
            scan.findings.extend(unwatched);
            if decision == Decision::Wait {
                return;
            }
        } else if let Some(folder) = &scan.folder {
            self.replacement.begin(folder);
        }
        let read_all = std::mem::take(&mut self.read_all);
        let files = &self.files;
        let deleted = files
            .stamps
            .keys()
            .filter(|id| !scan.files.contains_key(&***id) && !scan.hides(id))
            .cloned()
            .collect();
        let changed = scan
            .files
            .into_iter()
            .filter(|(path, stamp)| read_all || files.stamps.get(path.as_path()) != Some(stamp))
            .map(|(path, _)| DocumentId::from(path))
            .collect();
        self.published.walk = scan.findings;
        self.begin(changed, deleted, read_all);
    }

    /// Begins to read files that changed together.
    fn begin(&mut self, changed: Vec<DocumentId>, deleted: Vec<DocumentId>, forced: bool) {
        let batch = self.files.begin(&changed, deleted, forced);
        let mut to_read: Vec<FileToRead> = Vec::with_capacity(changed.len());
        for id in changed {
            if self.files.reading_in(&id, batch) {
                let path = self.replacement.real(&self.root, &id);
                to_read.push((id, path));
            }
        }
        if !to_read.is_empty() {
            self.reader.read(to_read, self.threads());
        }
    }

    /// Returns the number of threads for a batch. A running server leaves one core to its clients.
    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if self.published.loaded {
            cores.saturating_sub(1).max(1)
        } else {
            cores
        }
    }

    fn read(&mut self, id: DocumentId, outcome: Outcome) {
        let Some(reading) = self.files.reading.remove(&id) else {
            return;
        };
        if reading.again {
            // The file changed while it was read.
            match reading.batch {
                Some(batch) => {
                    self.files.reading_in(&id, batch);
                    let path = self.replacement.real(&self.root, &id);
                    self.reader.read(vec![(id, path)], 1);
                }
                None => self.begin(vec![id], Vec::new(), false),
            }
            return;
        }
        // A read that responds late is a batch of its own.
        let batch = reading.batch;
        let batch = batch.unwrap_or_else(|| self.files.begin(&[], Vec::new(), false));
        let Some(batch) = self.files.batches.iter_mut().find(|b| b.id == batch) else {
            return;
        };
        batch.waiting.remove(&id);
        if let Some(progress) = self.progress.as_ref().filter(|_| batch.total > 0) {
            progress(batch.total - batch.waiting.len(), batch.total);
        }
        match outcome {
            Outcome::Document(stamp, document) => {
                self.files.stamps.insert(id, stamp);
                batch.read.push((stamp, *document));
            }
            Outcome::Deleted if self.changes.puts_off_deletion(self.quiet) => {
                let again = Dirty::Files(BTreeMap::from([(id.to_path_buf(), Writer::Unknown)]));
                self.changes.add(Pending::of(again), Instant::now());
            }
            Outcome::Deleted => batch.deleted.push(id),
            Outcome::FolderGone => self.walk(false),
        }
    }

    /// Gives up reads and walks that do not respond.
    fn supervise(&mut self) {
        for id in self.reader.stuck(self.no_response) {
            let Some(reading) = self.files.reading.get_mut(&id) else {
                continue;
            };
            let Some(batch) = reading.batch.take() else {
                continue;
            };
            let batch = self.files.batches.iter_mut().find(|b| b.id == batch);
            let Some(batch) = batch else { continue };
            if !batch.waiting.remove(&id) {
                continue;
            }
            let message = "no response: its last content stays served until it can be read";
            let finding = Finding::for_file(&id, "unreadable", message);
            let document = Document::unreadable(DocumentId::clone(&id), finding);
            self.files.stamps.insert(id, Stamp::default());
            batch.read.push((Stamp::default(), document));
        }
        if self.walks.give_up_stuck(self.no_response) {
            self.walks.start();
        }
    }

    /// Applies the batches that are complete. Returns whether more updates are wanted.
    fn complete(&mut self) -> bool {
        // The first update has all of the folder: clients that return after a restart would lose what it lacks.
        if !self.published.loaded {
            if self.read_all || !self.files.all_complete() {
                return true;
            }
            self.files.merge();
        }
        while let Some(batch) = self.files.take_complete() {
            if !self.apply(batch) {
                return false;
            }
        }
        let waiting: Vec<_> = self.files.settling.findings().collect();
        if self.published.loaded && waiting != self.published.waiting {
            let nothing = Batch::new(0, 0);
            return self.apply(nothing);
        }
        true
    }

    fn apply(&mut self, batch: Batch) -> bool {
        let now = Instant::now();
        let mut edits = Edits::default();
        for id in batch.deleted {
            self.files.stamps.remove(&id);
            self.files.settling.forget(&id);
            edits = edits.delete(id);
        }
        let losses = self
            .documents
            .losses(batch.read.iter().map(|(_, document)| document));
        for ((stamp, document), losses) in batch.read.into_iter().zip(losses) {
            let settling = &mut self.files.settling;
            if settling.is_settled(document.id(), stamp, losses, now) {
                edits = edits.put(document);
            }
        }
        self.published.waiting = self.files.settling.findings().collect();
        let source = [&self.published.walk, &self.published.waiting];
        let source = source.into_iter().flatten().cloned().collect();
        self.documents.set_source_findings(source);
        let mut update = self.documents.apply(edits);
        let is_first = !self.published.loaded;
        let about_all =
            |finding: &Finding| finding.severity == Severity::Error && *finding.file == *self.root;
        // Without a first read, only the state of an earlier process is known.
        update.is_unavailable =
            is_first && self.published.is_restored && self.published.walk.iter().any(about_all);
        self.published.loaded = !update.is_unavailable;
        if is_first && self.published.is_restored {
            (update.changes, update.groups) = if update.is_unavailable {
                Default::default()
            } else {
                self.documents.whole()
            };
        }
        let is_new = is_first && !update.is_unavailable
            || batch.forced
            || !update.changes.is_empty()
            || !update.groups.is_empty()
            || update.findings != self.published.findings
            || !update
                .deprecated_uses
                .is_same(&self.published.deprecated_uses);
        if !is_new {
            return true;
        }
        self.published.findings.clone_from(&update.findings);
        self.published.deprecated_uses = update.deprecated_uses.clone();
        update.origin.store = super::STORE.into();
        update.took = batch.began.elapsed();
        (self.sink)(update)
    }
}

/// Returns the finding about folders that are not watched.
fn polled(root: &Path, unwatched: &Unwatched) -> Finding {
    let Unwatched {
        count,
        first,
        reason,
    } = unwatched;
    let folders = match count {
        1 => "folder is",
        _ => "folders are",
    };
    let message = format!(
        "{count} {folders} not watched, but polled every second: {}: {reason}",
        first.display()
    );
    Finding {
        severity: Severity::Warning,
        ..Finding::for_file(root, "unwatched", &message)
    }
}
