//! Writers of both lanes, each with one publish after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::content::{Change, LANES, POOL, pooled, single, single_of};
use super::figures::Ending;
use super::publish::{Done, Manner, by_command, by_library};
use super::random::Random;
use super::run::Shared;
use crate::{Context, Fallible};

/// Lane of each writer: two of them compete for one head.
const LANE_OF: [usize; 3] = [0, 0, 1];
/// Clusters of a large publish.
const LARGE: usize = 30;
/// Clusters of its own that a writer keeps at most.
const SINGLES: usize = 8;
/// From the healing until the last publish of a long round, on a machine that does three per second.
const END: Duration = Duration::from_secs(180);

/// The writers.
#[derive(Debug)]
pub(super) struct Writers {
    site: Site,
    desks: Vec<Arc<Mutex<WriterWork>>>,
    tasks: JoinSet<()>,
}

/// Everything that all writers have.
#[derive(Clone, Debug)]
struct Site {
    cx: Context,
    urls: String,
    shared: Shared,
}

impl Site {
    /// Notes that a publish was refused. Fails unless the store really went back.
    fn refused(&self) -> Fallible {
        let mut run = self.shared.lock();
        run.figures.refused += 1;
        if run.record.is_restored() {
            Ok(())
        } else {
            Err("refused because the store went back, and it did not".into())
        }
    }
}

/// Work of one writer. It outlives the writer's process.
#[derive(Debug)]
struct WriterWork {
    writer: usize,
    random: Random,
    /// Publishes of this round that were not begun.
    left: usize,
    /// Longest pause before a publish, in milliseconds.
    pause: usize,
    /// Publishes whose own cluster is in the lane for certain.
    singles: VecDeque<usize>,
}

/// A publish to do.
struct Job {
    change: Change,
    manner: Manner,
    is_command: bool,
    pause: Duration,
}

impl Writers {
    pub(super) fn new(cx: &Context, urls: String, shared: &Shared, random: &mut Random) -> Self {
        let desk = |writer| WriterWork {
            writer,
            random: random.fork(),
            left: 0,
            pause: 0,
            singles: VecDeque::new(),
        };
        Self {
            site: Site {
                cx: cx.clone(),
                urls,
                shared: shared.clone(),
            },
            desks: (0..LANE_OF.len())
                .map(desk)
                .map(|desk| Arc::new(Mutex::new(desk)))
                .collect(),
            tasks: JoinSet::new(),
        }
    }

    /// Gives each writer its part of this number of publishes, to be done within about this time. The record has all
    /// heads.
    pub(super) fn begin(&mut self, publishes: usize, within: Duration) {
        let each = publishes.div_ceil(self.desks.len());
        let within = usize::try_from(within.as_millis()).unwrap_or(0);
        for desk in &self.desks {
            let mut desk = lock(desk);
            (desk.left, desk.pause) = (each, 2 * within / each);
            let lane = LANE_OF[desk.writer];
            let state = self.site.shared.lock().record.state(lane);
            let singles = state.keys().filter_map(|name| single_of(lane, name));
            let own = singles.filter(|number| number % LANE_OF.len() == desk.writer);
            desk.singles = own.collect();
        }
        self.go_on();
    }

    /// Starts all writers, again after [`kill`](Self::kill).
    pub(super) fn go_on(&mut self) {
        for desk in &self.desks {
            self.tasks.spawn(write(self.site.clone(), Arc::clone(desk)));
        }
    }

    /// Ends all writers at once, whatever they do.
    pub(super) async fn kill(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Waits until all publishes of the round have ended.
    pub(super) async fn end(&mut self) -> Fallible {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let ended = timeout(END, all).await;
        ended.map_err(|_| format!("writers: not ended within {END:?}"))?;
        self.site.shared.lock().check()
    }
}

fn lock(desk: &Mutex<WriterWork>) -> MutexGuard<'_, WriterWork> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write(site: Site, desk: Arc<Mutex<WriterWork>>) {
    loop {
        let Some(job) = lock(&desk).next(&site.shared) else {
            return;
        };
        sleep(job.pause).await;
        let folder = format!("writer-{}", lock(&desk).writer);
        match publish(&site, &folder, &job).await {
            Ok(true) => lock(&desk).keep(&job.change),
            Ok(false) => {}
            Err(error) => return site.shared.lock().fail(error.to_string()),
        }
    }
}

/// Publishes, once more if the store went back. Returns whether the writer reported success.
async fn publish(site: &Site, folder: &str, job: &Job) -> Fallible<bool> {
    let mut done = once(site, folder, job, job.manner).await?;
    if matches!(done, Done::WentBack) {
        site.refused()?;
        let manner = Manner {
            accepts_restored: true,
            ..job.manner
        };
        done = once(site, folder, job, manner).await?;
    }
    let mut run = site.shared.lock();
    let ending = match done {
        Done::Acknowledged(publish) => {
            run.record.acknowledge(job.change.number, publish);
            Ending::Acknowledged
        }
        Done::Killed => Ending::Killed,
        Done::Unknown => Ending::Unknown,
        Done::Failed | Done::WentBack => Ending::Failed,
    };
    run.figures.count(ending);
    Ok(ending == Ending::Acknowledged)
}

async fn once(site: &Site, folder: &str, job: &Job, manner: Manner) -> Fallible<Done> {
    if job.is_command {
        by_command(&site.cx, folder, &site.urls, &job.change, manner).await
    } else {
        by_library(&site.urls, &job.change, manner).await
    }
}

impl WriterWork {
    /// Returns the next publish, which is begun in the record.
    fn next(&mut self, shared: &Shared) -> Option<Job> {
        self.left = self.left.checked_sub(1)?;
        let random = &mut self.random;
        let lane = LANE_OF[self.writer];
        let is_command = random.one_in(12);
        let is_large = random.one_in(10);
        let dies_after = if is_command {
            (!random.one_in(3)).then(|| random.millis(0, 400))
        } else {
            random.one_in(20).then(|| random.millis(0, 40))
        };
        let count = if is_large { LARGE } else { 1 + random.below(3) };
        let upserts = (0..count).map(|_| pooled(lane, random.below(POOL)));
        let mut upserts: std::collections::BTreeSet<_> = upserts.collect();
        // A removed cluster was in the lane when the publish begins, and no other publish writes it: its absence
        // afterwards is certain.
        let is_full = self.singles.len() >= SINGLES;
        let removes = !is_command && (is_full || random.one_in(3));
        let removed = removes.then(|| self.singles.pop_front()).flatten();
        let adds = !is_full && random.one_in(2);
        let pause = random.millis(0, self.pause);
        let mut run = shared.lock();
        // Its remainder is the writer's, so that the writer knows its clusters in the next round.
        let next = run.record.next();
        let own = (next..).find(|number| number % LANE_OF.len() == self.writer);
        let number = own.unwrap_or(next);
        if adds {
            upserts.insert(single(lane, number));
        }
        let change = Change {
            number,
            lane,
            upserts,
            removals: removed
                .map(|number| single(lane, number))
                .into_iter()
                .collect(),
        };
        run.record.begin(change.clone());
        Some(Job {
            change,
            manner: Manner {
                is_large,
                accepts_restored: false,
                dies_after,
            },
            is_command,
            pause,
        })
    }

    /// Notes that the own cluster of a publish is in the lane.
    fn keep(&mut self, change: &Change) {
        let name = single(change.lane, change.number);
        if change.upserts.contains(&name) {
            self.singles.push_back(change.number);
        }
    }
}

/// Publishes the stamp of a lane, by the members themselves. No publish that was begun before can succeed afterwards,
/// because each compares the head.
pub(super) async fn fence(shared: &Shared, urls: &str, lane: usize) -> Fallible {
    let (change, accepts_restored) = {
        let mut run = shared.lock();
        let change = Change {
            number: run.record.next(),
            lane,
            ..Change::default()
        };
        run.record.begin(change.clone());
        (change, run.record.is_restored())
    };
    let manner = Manner {
        accepts_restored,
        ..Manner::default()
    };
    match by_library(urls, &change, manner).await? {
        Done::Acknowledged(publish) => {
            let mut run = shared.lock();
            run.record.acknowledge(change.number, publish);
            run.figures.count(Ending::Acknowledged);
            Ok(())
        }
        other => Err(format!("{}: last publish of the round: {other:?}", LANES[lane]).into()),
    }
}
