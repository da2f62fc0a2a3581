//! Progress of long work, on a terminal.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use oxds_server::dir::Progress;

use crate::log;

/// Smallest number of files for which progress is shown: fewer are read too fast to see it.
const MIN_FILES: usize = 1_000;
/// Time between two updates of the line: often enough for a person, seldom enough to cost nothing.
const EVERY: Duration = Duration::from_millis(100);

/// Time before the line appears. Shorter work shows none.
const DELAY: Duration = Duration::from_secs(1);

/// Runs `work`. If it takes longer than a second and stderr is a terminal, a line on stderr shows `label`
/// and the seconds so far.
pub(crate) fn while_working<T>(label: &str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (working, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || draw_until(label, &ended));
        let done = work();
        drop(working);
        done
    })
}

fn draw_until(label: &str, ended: &Receiver<()>) {
    let began = Instant::now();
    let mut wait = DELAY;
    // Nothing is sent: the loop ends when the sender is dropped.
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        log::write(&format!("\r\x1b[K{label}, {} s", began.elapsed().as_secs()));
        wait = EVERY;
    }
    if wait == EVERY {
        log::write("\r\x1b[K");
    }
}

/// Returns a callback that shows the number of files on a line of stderr and clears it at the end, or
/// `None` without a terminal.
pub(crate) fn on_terminal() -> Option<Progress> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let drawn = Mutex::new(None::<Instant>);
    Some(Arc::new(move |done, total| {
        if total < MIN_FILES {
            return;
        }
        // While another thread draws, this count is old already. Only the last one must clear the line.
        let drawn = if done == total {
            drawn.lock().ok()
        } else {
            drawn.try_lock().ok()
        };
        let Some(mut drawn) = drawn else { return };
        if done == total {
            log::write("\r\x1b[K");
        } else if drawn.is_none_or(|at| at.elapsed() >= EVERY) {
            *drawn = Some(Instant::now());
            let percent = done.saturating_mul(100) / total;
            log::write(&format!(
                "\r\x1b[Kreading {done} of {total} files, {percent} %"
            ));
        }
    }))
}
