//! The demo itself: set up, watched, concluded.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxds_client::{Bootstrap, ClientPool};
use oxds_server::{DirStore, Server};
use terminal_size::{Height, terminal_size};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use super::folder;
use super::screen::Screen;
use super::store::{News, Watched};
use super::table::Scene;
use super::tally::TICK;
use super::traffic::Traffic;
use super::verdict::Verdict;
use crate::commands::{dir_options, unreadable};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::Stop;
use crate::terminal::Style;

/// Everything in one process.
#[derive(Debug)]
pub(super) struct Demo {
    folder: PathBuf,
    edit: Option<PathBuf>,
    grpc: SocketAddr,
    http: SocketAddr,
    news: watch::Receiver<News>,
    /// What the traffic was last measured anew for.
    last_change: Option<Instant>,
    traffic: Traffic,
    stop_server: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Demo {
    pub(super) async fn start(folder: PathBuf) -> Result<Self, Failure> {
        let store = DirStore::open(&folder, dir_options(false, false));
        let (store, mut news) = Watched::new(store.map_err(|error| unreadable(&error))?);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::builder()
            .grpc(any)
            .http(any)
            .store(store)
            .bind()
            .await;
        let server = server.map_err(Failure::negative)?;
        let (grpc, http) = (server.grpc_addr(), server.http_addr().unwrap_or(any));
        let (stop_server, stopped) = oneshot::channel();
        let server = tokio::spawn(server.run(async {
            // A sender that is gone says the same.
            let _ = stopped.await;
        }));
        let read = news.changed().await;
        read.map_err(|_| Failure::negative("the folder was not read"))?;
        usable(&folder, &news.borrow())?;

        let bootstrap = Bootstrap::builder(grpc.to_string()).node_id("demo").build();
        let mut traffic = Traffic::new(ClientPool::new(bootstrap.map_err(Failure::negative)?))?;
        traffic.follow(&news.borrow_and_update().plan)?;
        Ok(Self {
            edit: folder::file_to_edit(&folder),
            folder,
            grpc,
            http,
            news,
            last_change: None,
            traffic,
            stop_server,
            server,
        })
    }

    /// Shows what happens until the time is over, a signal comes, or nobody reads any more.
    pub(super) async fn watch(
        &mut self,
        output: &mut Output,
        live: bool,
        limit: Option<Duration>,
    ) -> Result<(), Failure> {
        let (mut stop, mut screen) = (Stop::listen()?, Screen::default());
        let mut ticks = interval(TICK);
        let end = sleep(limit.unwrap_or(Duration::MAX));
        tokio::pin!(end);
        if !live {
            output.write(&self.scene(Style::PLAIN, |scene| scene.introduction()))?;
        }
        while !output.is_closed() {
            tokio::select! {
                () = &mut end => break,
                _ = stop.next() => break,
                Ok(()) = self.news.changed() => {
                    self.take_in()?;
                    if !live {
                        output.write(&self.scene(Style::PLAIN, |scene| scene.configuration()))?;
                    }
                }
                _ = ticks.tick() => {
                    self.traffic.tally().tick();
                    if live {
                        let style = Style::for_terminal();
                        let text = self.table(style);
                        output.write(&screen.draw(&text, rows()))?;
                    }
                }
            }
        }
        if live && limit.is_some() {
            // The summary takes the place of the live table.
            output.write(&screen.draw("", rows()))?;
        }
        Ok(())
    }

    /// The folder was read again: calls what it names, and measures anew if anything is served
    /// differently.
    fn take_in(&mut self) -> Result<(), Failure> {
        let news = self.news.borrow_and_update();
        let change = news.changed.as_ref().map(|(at, _)| *at);
        if change != self.last_change {
            self.last_change = change;
            self.traffic.tally().change(Instant::now());
        }
        self.traffic.follow(&news.plan)
    }

    /// All of it.
    fn table(&self, style: Style) -> String {
        self.scene(style, |scene| {
            scene.introduction() + &scene.services() + &scene.configuration()
        })
    }

    fn scene(&self, style: Style, show: impl FnOnce(Scene<'_>) -> String) -> String {
        show(Scene {
            folder: &self.folder,
            edit: self.edit.as_deref(),
            grpc: self.grpc,
            http: self.http,
            news: &self.news.borrow(),
            tally: &self.traffic.tally(),
            now: Instant::now(),
            style,
        })
    }

    /// The summary, and whether the traffic was as configured.
    pub(super) fn conclude(&self, output: &mut Output, live: bool) -> Result<Exit, Failure> {
        let style = if live {
            Style::for_terminal()
        } else {
            Style::PLAIN
        };
        output.write(&if live {
            self.table(style)
        } else {
            self.scene(style, |scene| scene.services() + &scene.configuration())
        })?;
        let verdict = Verdict::of(&self.news.borrow().plan, &self.traffic.tally());
        output.write(&format!("\n{}", verdict.text(style)))?;
        Ok(if verdict.is_good() {
            Exit::Success
        } else {
            Exit::Negative
        })
    }

    pub(super) async fn end(self) {
        drop(self.traffic);
        // It is there until it is told.
        let _ = self.stop_server.send(());
        let _ = self.server.await;
    }
}

/// The height of the terminal.
fn rows() -> Option<usize> {
    let (_, Height(rows)) = terminal_size()?;
    Some(usize::from(rows))
}

/// Whether there is something to show.
fn usable(folder: &Path, news: &News) -> Result<(), Failure> {
    if let Some((address, why)) = news.without_backend.first_key_value() {
        let hint = format!(
            "give the endpoint another port in {}, or stop what listens on {address}",
            folder.display()
        );
        return Err(Failure::negative(format_args!("{address}: {why}")).hint(hint));
    }
    if news.plan.services.is_empty() {
        let findings: String = news
            .findings
            .iter()
            .map(|finding| format!("\n  {finding}"))
            .collect();
        let folder = folder.display();
        return Err(Failure::usage(format_args!(
            "{folder} has no listener with an `api_listener`: there is nothing to call{findings}"
        )));
    }
    Ok(())
}
