//! The way of lines to stderr: a bounded queue, and a thread that writes.
//!
//! The reader of stderr may be slow, or gone, and the disk behind it may be full. None of this may delay or end the
//! service, so nothing but the thread ever waits for stderr. Lines that do not fit into the queue, or that cannot be
//! written, are lost and counted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

/// Bytes of lines that wait to be written: thousands of lines, which a reader that is merely slow catches up with.
const MAX_BYTES: usize = 4 << 20;

/// Returns the lines of the process. The first call starts the thread.
pub(super) fn stderr() -> &'static Lines {
    static STDERR: OnceLock<Lines> = OnceLock::new();
    STDERR.get_or_init(|| {
        // A descriptor of its own: a write that blocks must not hold the lock of `std::io::stderr`.
        let file = std::io::stderr().as_fd().try_clone_to_owned();
        Lines::start(file.map(File::from).ok())
    })
}

/// Lines on their way to a writer.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
    written: Condvar,
    lost: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether the thread is writing a line.
    is_writing: bool,
}

impl Lines {
    /// Starts a thread that writes to `file`. Without a file, or without a thread, all lines are lost.
    fn start(file: Option<impl Write + Send + 'static>) -> Self {
        let lines = Self(Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            written: Condvar::new(),
            lost: Arc::default(),
        }));
        if let Some(file) = file {
            let (shared, builder) = (Arc::clone(&lines.0), std::thread::Builder::new());
            // An error means that the system has no more threads: the queue fills, and lines are counted as lost.
            let _ = builder
                .name("oxds-log".into())
                .spawn(move || shared.run(file));
        }
        lines
    }

    /// Adds a line, or counts it as lost if the queue is full. Never waits for the writer.
    pub(super) fn write(&self, line: &[u8]) {
        let mut queue = self.0.lock();
        if queue.bytes + line.len() > MAX_BYTES {
            self.0.lost.fetch_add(1, Relaxed);
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line.into());
        drop(queue);
        self.0.arrived.notify_one();
    }

    /// Waits at most this time until all lines are written.
    pub(super) fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut queue = self.0.lock();
        while queue.is_writing || !queue.lines.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.written.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the counter of lost lines.
    pub(super) fn lost(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.lost)
    }
}

impl Shared {
    fn run(&self, mut file: impl Write) {
        let mut reported = 0;
        loop {
            let line = self.next();
            let result = file.write_all(&line).and_then(|()| file.flush());
            let mut queue = self.lock();
            queue.is_writing = false;
            drop(queue);
            match result {
                Ok(()) => {
                    let lost = self.lost.load(Relaxed);
                    if lost > reported {
                        let lost = lost - std::mem::replace(&mut reported, lost);
                        warn!(
                            lost,
                            "log lines lost: stderr was not writable, or not read in time"
                        );
                    }
                }
                Err(_) => drop(self.lost.fetch_add(1, Relaxed)),
            }
            self.written.notify_all();
        }
    }

    /// Waits for a line.
    fn next(&self) -> Vec<u8> {
        let mut queue = self.lock();
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.len();
                queue.is_writing = true;
                return line;
            }
            let waited = self.arrived.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer of log lines. Each line comes by one call.
pub(super) struct LineWriter;

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        stderr().write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A writer that waits for a permit before each line, and fails if the permit is `false`.
    struct Gate(Receiver<bool>, Sender<Vec<u8>>);

    impl Write for Gate {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let permit = self.0.recv().unwrap_or(false);
            if !permit {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let _ = self.1.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_queue_loses_lines_and_counts_them() {
        let ((permits, gate), (sender, received)) = (channel(), channel());
        let lines = Lines::start(Some(Gate(gate, sender)));
        let long = vec![b'x'; MAX_BYTES / 2];
        for _ in 0..5 {
            lines.write(&long);
        }
        // One may be with the thread already.
        let lost = lines.lost().load(Relaxed);
        assert!((2..=3).contains(&lost), "{lost}");
        // Nothing is written, so the wait ends by its limit.
        lines.flush(Duration::from_millis(10));
        for _ in 0..5 {
            permits.send(true).unwrap();
        }
        lines.flush(Duration::from_secs(10));
        let written = 5 - usize::try_from(lost).unwrap();
        assert_eq!(received.try_iter().count(), written);
        lines.write(b"later");
        lines.flush(Duration::from_secs(10));
        assert_eq!(received.try_iter().next(), Some(b"later".to_vec()));
    }

    #[test]
    fn failed_writes_are_counted_as_lost() {
        let ((permits, gate), (sender, received)) = (channel(), channel());
        let lines = Lines::start(Some(Gate(gate, sender)));
        for permit in [false, false, true] {
            permits.send(permit).unwrap();
            lines.write(b"line");
        }
        lines.flush(Duration::from_secs(10));
        assert_eq!(lines.lost().load(Relaxed), 2);
        assert_eq!(received.try_iter().count(), 1);
    }
}
