//! Threads that read and decode files.
//!
//! A read may block without end (a dead network mount), and a large file takes seconds to decode. So files are read on
//! threads of their own, which the runtime does not wait for, and no read delays another one.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oxds_types::file::{ReadError, Stamp};

use super::activity::Activity;
use super::disk::Disk;
use super::message::{Message, Outcome};
use crate::store::documents::{Document, DocumentDecoder, DocumentId};
use crate::store::finding::Finding;

/// A file to read: its id, and its path from the folder behind the name.
pub(super) type FileToRead = (DocumentId, PathBuf);

/// The readers of a folder.
pub(super) struct Reader {
    context: Context,
    threads: Vec<Thread>,
}

/// Everything that a reading thread needs.
#[derive(Clone)]
struct Context {
    disk: Arc<dyn Disk>,
    decoder: Arc<DocumentDecoder>,
    inbox: Sender<Message>,
}

/// A reading thread, as its supervisor sees it.
struct Thread {
    queue: Arc<Queue>,
    activity: Activity,
    /// Set when the thread ended, or when it must not take another file.
    done: Arc<AtomicBool>,
}

/// The files of one batch that no thread has begun with.
type Queue = Mutex<VecDeque<FileToRead>>;

impl Reader {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        decoder: Arc<DocumentDecoder>,
        inbox: Sender<Message>,
    ) -> Self {
        let context = Context {
            disk,
            decoder,
            inbox,
        };
        Self {
            context,
            threads: Vec::new(),
        }
    }

    /// Reads these files on at most `threads` threads. Each result becomes a message.
    pub(super) fn read(&mut self, files: Vec<FileToRead>, threads: usize) {
        self.threads.retain(|thread| !thread.done.load(Relaxed));
        let threads = threads.clamp(1, files.len().max(1));
        let queue = Arc::new(Mutex::new(VecDeque::from(files)));
        for _ in 0..threads {
            self.spawn(&queue);
        }
    }

    /// Whether a thread may be reading.
    pub(super) fn is_busy(&self) -> bool {
        self.threads.iter().any(|thread| !thread.done.load(Relaxed))
    }

    /// Returns the files whose read has blocked for this time. Other threads read the rest of their batches.
    pub(super) fn stuck(&mut self, limit: Duration) -> BTreeSet<DocumentId> {
        let (mut stuck, mut queues) = (BTreeSet::new(), Vec::new());
        for thread in &self.threads {
            let at = thread.activity.stuck_for(limit);
            if let Some(path) = at.filter(|_| !thread.done.swap(true, Relaxed)) {
                stuck.insert(DocumentId::from(path));
                queues.push(Arc::clone(&thread.queue));
            }
        }
        for queue in queues {
            self.spawn(&queue);
        }
        stuck
    }

    fn spawn(&mut self, queue: &Arc<Queue>) {
        let (activity, done) = (Activity::default(), Arc::new(AtomicBool::new(false)));
        let run = {
            let (context, queue) = (self.context.clone(), Arc::clone(queue));
            let (activity, done) = (activity.clone(), Arc::clone(&done));
            move || context.run(&queue, &activity, &done)
        };
        let builder = std::thread::Builder::new().name("oxds-read".into());
        if builder.spawn(run.clone()).is_err() {
            // The system is out of threads: this is slower, but reads all files.
            run();
        }
        self.threads.push(Thread {
            queue: Arc::clone(queue),
            activity,
            done,
        });
    }
}

impl Context {
    /// Reads files until the queue is empty, or until the thread was given up.
    fn run(&self, queue: &Queue, activity: &Activity, done: &AtomicBool) {
        while !done.load(Relaxed) {
            let next = queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some((id, path)) = next else {
                done.store(true, Relaxed);
                return;
            };
            // A bug, and the panic hook reports it. Other files are read all the same.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.read(&id, &path, activity)));
            let outcome = outcome.unwrap_or_else(|_| {
                activity.done();
                let message = "internal error: a panic while the file was read";
                let finding = Finding::for_file(&id, "internal", message);
                let document = Document::unreadable(DocumentId::clone(&id), finding);
                Outcome::Document(Stamp::default(), Box::new(document))
            });
            if self.inbox.send(Message::Read { id, outcome }).is_err() {
                return;
            }
        }
    }

    fn read(&self, id: &DocumentId, path: &Path, activity: &Activity) -> Outcome {
        activity.at(id);
        let state = state_of(path);
        let stamp = match state {
            PathState::Exists => Stamp::of(path),
            PathState::Deleted | PathState::FolderGone => {
                activity.done();
                return match state {
                    PathState::FolderGone => Outcome::FolderGone,
                    _ => Outcome::Deleted,
                };
            }
        };
        let bytes = self.disk.read(path, self.decoder.max_bytes());
        // Decoding a large file takes seconds, so a slow thread is not given up.
        activity.done();
        let document = match bytes {
            Ok(bytes) => self.decoder.decode(DocumentId::clone(id), &bytes),
            Err(error) => {
                let rule = match error {
                    ReadError::TooLarge(_) => "too-large",
                    _ => "unreadable",
                };
                let finding = Finding::for_file(id, rule, &error.to_string());
                Document::unreadable(DocumentId::clone(id), finding)
            }
        };
        Outcome::Document(stamp, Box::new(document))
    }
}

/// Whether a path leads to something.
#[derive(Clone, Copy)]
enum PathState {
    /// A file, or a link to nothing, which is reported as unreadable.
    Exists,
    Deleted,
    FolderGone,
}

fn state_of(path: &Path) -> PathState {
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    match path.parent() {
        _ if exists(path) => PathState::Exists,
        Some(folder) if !exists(folder) => PathState::FolderGone,
        _ => PathState::Deleted,
    }
}
