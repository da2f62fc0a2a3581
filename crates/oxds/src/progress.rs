//! How far long work is, on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use oxds_server::dir::Progress;

/// Folders below this size are read before anybody could look.
const WORTH_SHOWING: usize = 1_000;
/// Often enough to look alive, seldom enough to cost nothing.
const EVERY: Duration = Duration::from_millis(100);

/// Work that is done by then needs no words.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does `work`; when it takes longer than a second, a line on stderr says what is done, and since
/// when. Nothing without a terminal.
pub(crate) fn while_working<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (working, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || draw_until(what, &ended));
        let done = work();
        drop(working);
        done
    })
}

fn draw_until(what: &str, ended: &Receiver<()>) {
    let began = Instant::now();
    let mut wait = PATIENCE;
    // It ends when the sender is dropped; nothing is ever sent.
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{what}, {} s", began.elapsed().as_secs());
        let _ = stderr.flush();
        wait = EVERY;
    }
    if wait == EVERY {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K");
        let _ = stderr.flush();
    }
}

/// A line on stderr that counts files, and vanishes at the end; nothing without a terminal.
pub(crate) fn on_terminal() -> Option<Progress> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let drawn = Mutex::new(None::<Instant>);
    Some(Arc::new(move |done, total| {
        if total < WORTH_SHOWING {
            return;
        }
        // Whoever finds it busy has nothing newer to say; but the last one clears the line.
        let drawn = if done == total {
            drawn.lock().ok()
        } else {
            drawn.try_lock().ok()
        };
        let Some(mut drawn) = drawn else { return };
        let mut stderr = std::io::stderr().lock();
        // A progress line that cannot be drawn is nobody's loss.
        if done == total {
            let _ = write!(stderr, "\r\x1b[K");
        } else if drawn.is_none_or(|at| at.elapsed() >= EVERY) {
            *drawn = Some(Instant::now());
            let percent = done.saturating_mul(100) / total;
            let _ = write!(
                stderr,
                "\r\x1b[Kreading {done} of {total} files, {percent} %"
            );
        }
        let _ = stderr.flush();
    }))
}
