//! The table: what was planned, and what the calls did. Fits a terminal of 80 columns.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use oxds_server::Finding;

use super::plan::{Endpoint, Service};
use super::store::News;
use super::tally::{Calls, Tally};
use super::verdict::{agrees, as_f64};
use crate::terminal::Style;

/// A bar of this many characters is all calls of a service.
const BAR: f64 = 10.0;
/// So many resources of a change are named: with two names, a line is full.
const SOME: usize = 2;
/// For so long a failure is shown with its reason; the count of failures stays.
const FRESH: Duration = Duration::from_secs(5);

/// All that is shown.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) folder: &'a Path,
    /// The file that splits the calls, where the folder is the example.
    pub(super) edit: Option<&'a Path>,
    pub(super) grpc: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) news: &'a News,
    pub(super) tally: &'a Tally,
    pub(super) now: Instant,
    pub(super) style: Style,
}

/// The widest text of each column.
#[derive(Clone, Copy, Debug)]
struct Widths {
    cluster: usize,
    locality: usize,
    endpoint: usize,
}

impl Scene<'_> {
    /// Where everything is, and what to try.
    pub(super) fn introduction(&self) -> String {
        let style = self.style;
        let edit = match self.edit {
            Some(file) => format!(
                "{}, weights 90 and 10",
                style.bold(&file.display().to_string())
            ),
            None => format!("a file in {}", self.folder.display()),
        };
        format!(
            "{}: a control plane, its backends, and a client for each service\n\n  \
             edit    {edit}; then save\n  \
             see     the traffic follow within a second\n  \
             status  http://{}/status.json (ADS is on {})\n",
            style.bold("oxds demo"),
            self.http,
            self.grpc,
        )
    }

    /// A block per service.
    pub(super) fn services(&self) -> String {
        let widths = self.widths();
        let services = self.news.plan.services.iter();
        services
            .map(|service| self.service(service, widths))
            .collect()
    }

    fn widths(&self) -> Widths {
        let services = self.news.plan.services.iter();
        let endpoints: Vec<_> = services
            .flat_map(|s| s.endpoints.iter().flatten())
            .collect();
        let widest = |title: &str, of: &dyn Fn(&Endpoint) -> usize| {
            endpoints
                .iter()
                .map(|e| of(e))
                .max()
                .unwrap_or(0)
                .max(title.len())
        };
        Widths {
            cluster: widest("cluster", &|e| e.cluster.chars().count()),
            locality: widest("locality", &|e| e.locality.to_string().chars().count()),
            endpoint: widest("endpoint", &|e| e.address.to_string().len()),
        }
    }

    fn service(&self, service: &Service, widths: Widths) -> String {
        let silent = Calls::default();
        let calls = self.tally.service(&service.name).unwrap_or(&silent);
        let mut text = self.title(service, calls);
        let endpoints = match &service.endpoints {
            Ok(endpoints) => endpoints,
            Err(why) => return text + &format!("  {}\n", self.style.yellow(why)),
        };
        let Widths {
            cluster,
            locality,
            endpoint,
        } = widths;
        let titles = format!(
            "  {:<cluster$}  {:<locality$}  prio  {:<endpoint$}  calls/s   share  wanted",
            "cluster", "locality", "endpoint"
        );
        text += &format!("{}\n", self.style.dim(&titles));
        let total = calls.total();
        text.extend(
            endpoints
                .iter()
                .map(|e| self.endpoint(e, calls, total, widths)),
        );
        text
    }

    fn title(&self, service: &Service, calls: &Calls) -> String {
        let endpoints = service.endpoints.as_deref().unwrap_or_default();
        let rate: u64 = endpoints.iter().map(|e| calls.rate(e.address)).sum();
        let failed = format!("{} failed", calls.failed);
        let failed = match calls.failed {
            0 => self.style.dim(&failed),
            _ => self.style.red(&failed),
        };
        let name = self.style.bold(&format!("xds:///{}", service.name));
        let mut text = format!("\n{name}  {rate} calls/s, {failed}\n");
        if let Some(why) = calls.failed_since(self.now.checked_sub(FRESH)) {
            text += &format!("  {}\n", self.style.red(why));
        }
        text
    }

    fn endpoint(&self, of: &Endpoint, calls: &Calls, total: u64, widths: Widths) -> String {
        let measured = calls.measured(of.address);
        let part = if total == 0 {
            0.0
        } else {
            as_f64(measured) / as_f64(total)
        };
        let share = format!("{:>5.1}%", part * 100.0);
        let share = match (total, agrees(measured, total, of.share)) {
            (0, _) => self.style.dim("     –"),
            (_, true) => self.style.green(&share),
            (_, false) => self.style.yellow(&share),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to BAR"
        )]
        let bar = "█".repeat((part * BAR).round() as usize);
        let Widths {
            cluster,
            locality,
            endpoint,
        } = widths;
        let line = format!(
            "  {:<cluster$}  {:<locality$}  {:>4}  {:<endpoint$}  {:>7}  {share}  {:>5.1}%  {bar}",
            of.cluster,
            of.locality.to_string(),
            of.priority,
            of.address.to_string(),
            calls.rate(of.address),
            of.share * 100.0,
        );
        let problem = self.news.without_backend.get(&of.address);
        let problem = problem.map(|why| format!("\n    {}", self.style.yellow(why)));
        format!("{}{}\n", line.trim_end(), problem.unwrap_or_default())
    }

    /// Versions, the last change, and what is wrong with the folder.
    pub(super) fn configuration(&self) -> String {
        let versions = self.news.versions.iter();
        let versions: Vec<_> = versions
            .map(|(resource_type, version)| {
                format!("{resource_type} {}", version.get(..8).unwrap_or(version))
            })
            .collect();
        let change = match &self.news.changed {
            None => "none yet".to_owned(),
            Some((at, what)) => {
                let ago = self.now.saturating_duration_since(*at).as_secs();
                let more = match what.len().saturating_sub(SOME) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let some: Vec<_> = what.iter().take(SOME).map(String::as_str).collect();
                format!("{ago} s ago: {}{more}", some.join(", "))
            }
        };
        let mut text = format!("\nversions     {}\n", versions.join("  "));
        text += &format!("last change  {change}\n");
        text.extend(
            self.news
                .findings
                .iter()
                .map(|finding| self.finding(finding)),
        );
        text
    }

    /// On lines of its own each, because paths and messages are long.
    fn finding(&self, finding: &Finding) -> String {
        let at = finding
            .position
            .map(|at| format!(":{at}"))
            .unwrap_or_default();
        let place = format!("{}  {}{at}", finding.severity, finding.file.display());
        let mut text = format!("\n{}\n", self.style.red(&place));
        if !finding.path.is_empty() {
            text += &format!("  {}\n", finding.path);
        }
        text + &format!(
            "  {}\n  {}\n",
            finding.message,
            self.style.dim("what was served before still is")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::commands::demo::plan::{Plan, tests::shop};
    use crate::commands::demo::tally::SETTLE;

    fn scene<'a>(news: &'a News, tally: &'a Tally, now: Instant) -> Scene<'a> {
        Scene {
            folder: Path::new("examples/shop"),
            edit: Some(Path::new("examples/shop/checkout/routes.yaml")),
            grpc: ([127, 0, 0, 1], 18000).into(),
            http: ([127, 0, 0, 1], 18001).into(),
            news,
            tally,
            now,
            style: Style::PLAIN,
        }
    }

    #[test]
    fn the_example_fits_a_terminal_of_80_by_24() {
        let news = News {
            plan: Arc::new(Plan::of(&shop(|text| text))),
            changed: Some((
                Instant::now(),
                vec!["RouteConfiguration checkout-routes".to_owned()],
            )),
            ..News::default()
        };
        let (now, mut tally) = (Instant::now(), Tally::new(Instant::now()));
        let catalog = Arc::from("catalog");
        for port in [18105, 18106] {
            tally.answered(&catalog, ([127, 0, 0, 1], port).into(), now + SETTLE * 2);
        }
        let scene = scene(&news, &tally, now);
        let text = scene.introduction() + &scene.services() + &scene.configuration();
        assert!(text.contains(" 50.0%   50.0%  █████\n"), "{text}");
        assert!(text.lines().count() < 24, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn a_failure_is_told_while_it_is_fresh() {
        let (start, news) = (
            Instant::now(),
            News {
                plan: Arc::new(Plan::of(&shop(|text| text))),
                ..News::default()
            },
        );
        let mut tally = Tally::new(start);
        tally.failed(
            &Arc::from("catalog"),
            start,
            "UNAVAILABLE: no route".to_owned(),
        );
        let fresh = scene(&news, &tally, start).services();
        assert!(
            fresh.contains("1 failed\n  UNAVAILABLE: no route"),
            "{fresh}"
        );
        let later = scene(&news, &tally, start + FRESH * 2).services();
        assert!(
            later.contains("1 failed\n") && !later.contains("no route"),
            "{later}"
        );
    }
}
