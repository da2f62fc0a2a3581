//! The table of planned and measured traffic. It fits a terminal of 80 columns.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use oxds_server::Finding;

use super::plan::{PlannedEndpoint, PlannedService};
use super::store::FolderStatus;
use super::tally::{ServiceTally, Tally};
use super::verdict::{agrees, as_f64};
use crate::terminal::Style;

/// Length of the bar for all calls of a service, in characters.
const BAR: f64 = 10.0;
/// Number of resources named per change: two names fill a line.
const MAX_NAMES: usize = 2;
/// Time for which the reason of a failed call is shown. The count of failures stays.
const FAILURE_SHOWN: Duration = Duration::from_secs(5);

/// Data of the table at one moment.
#[derive(Debug)]
pub(super) struct DemoView<'a> {
    pub(super) folder: &'a Path,
    /// File with the weights of the traffic split, if the folder is the example.
    pub(super) edit: Option<&'a Path>,
    pub(super) grpc: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) folder_status: &'a FolderStatus,
    pub(super) tally: &'a Tally,
    pub(super) now: Instant,
    pub(super) style: Style,
}

/// Width of each column, in characters.
#[derive(Clone, Copy, Debug)]
struct Widths {
    cluster: usize,
    locality: usize,
    endpoint: usize,
}

impl DemoView<'_> {
    /// Returns the file to edit and the addresses.
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
             edit    {edit}, and save\n  \
             result  the traffic follows within a second\n  \
             status  http://{}/status.json (ADS: {})\n",
            style.bold("oxds demo"),
            self.http,
            self.grpc,
        )
    }

    /// Returns a table for each service.
    pub(super) fn services(&self) -> String {
        let widths = self.widths();
        let services = self.folder_status.plan.services.iter();
        services
            .map(|service| self.service(service, widths))
            .collect()
    }

    fn widths(&self) -> Widths {
        let services = self.folder_status.plan.services.iter();
        let endpoints: Vec<_> = services
            .flat_map(|s| s.endpoints.iter().flatten())
            .collect();
        let widest = |title: &str, of: &dyn Fn(&PlannedEndpoint) -> usize| {
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

    fn service(&self, service: &PlannedService, widths: Widths) -> String {
        let no_calls = ServiceTally::default();
        let calls = self.tally.service(&service.name).unwrap_or(&no_calls);
        let mut text = self.title(service, calls);
        let endpoints = match &service.endpoints {
            Ok(endpoints) => endpoints,
            Err(reason) => return text + &format!("  {}\n", self.style.yellow(reason)),
        };
        let Widths {
            cluster,
            locality,
            endpoint,
        } = widths;
        let titles = format!(
            "  {:<cluster$}  {:<locality$}  prio  {:<endpoint$}  calls/s   share  target",
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

    fn title(&self, service: &PlannedService, calls: &ServiceTally) -> String {
        let endpoints = service.endpoints.as_deref().unwrap_or_default();
        let rate: u64 = endpoints.iter().map(|e| calls.rate(e.address)).sum();
        let failed = format!("{} failed", calls.failed);
        let failed = match calls.failed {
            0 => self.style.dim(&failed),
            _ => self.style.red(&failed),
        };
        let name = self.style.bold(&format!("xds:///{}", service.name));
        let mut text = format!("\n{name}  {rate} calls/s, {failed}\n");
        if let Some(reason) = calls.failed_since(self.now.checked_sub(FAILURE_SHOWN)) {
            text += &format!("  {}\n", self.style.red(reason));
        }
        text
    }

    fn endpoint(
        &self,
        of: &PlannedEndpoint,
        calls: &ServiceTally,
        total: u64,
        widths: Widths,
    ) -> String {
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
        let problem = self.folder_status.without_backend.get(&of.address);
        let problem = problem.map(|reason| format!("\n    {}", self.style.yellow(reason)));
        format!("{}{}\n", line.trim_end(), problem.unwrap_or_default())
    }

    /// Returns the versions, the last change, and the findings of the folder.
    pub(super) fn configuration(&self) -> String {
        let versions = self.folder_status.versions.iter();
        let versions: Vec<_> = versions
            .map(|(resource_type, version)| {
                format!("{resource_type} {}", version.get(..8).unwrap_or(version))
            })
            .collect();
        let change = match &self.folder_status.changed {
            None => "none".to_owned(),
            Some((at, changed)) => {
                let ago = self.now.saturating_duration_since(*at).as_secs();
                let more = match changed.len().saturating_sub(MAX_NAMES) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let names = changed.iter().take(MAX_NAMES).map(String::as_str);
                let names: Vec<_> = names.collect();
                format!("{ago} s ago: {}{more}", names.join(", "))
            }
        };
        let mut text = format!("\nversions     {}\n", versions.join("  "));
        text += &format!("last change  {change}\n");
        text.extend(
            self.folder_status
                .findings
                .iter()
                .map(|finding| self.finding(finding)),
        );
        text
    }

    /// Returns place, path and message on separate lines, because paths and messages are long.
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
            self.style.dim("the last valid content stays served")
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::commands::demo::plan::{TrafficPlan, tests::shop};
    use crate::commands::demo::tally::SETTLE;

    fn view<'a>(folder_status: &'a FolderStatus, tally: &'a Tally, now: Instant) -> DemoView<'a> {
        DemoView {
            folder: Path::new("examples/shop"),
            edit: Some(Path::new("examples/shop/checkout/routes.yaml")),
            grpc: ([127, 0, 0, 1], 18000).into(),
            http: ([127, 0, 0, 1], 18001).into(),
            folder_status,
            tally,
            now,
            style: Style::PLAIN,
        }
    }

    #[test]
    fn example_fits_a_terminal_of_80_by_24() {
        let status = FolderStatus {
            plan: Arc::new(TrafficPlan::of(&shop(|text| text))),
            changed: Some((
                Instant::now(),
                vec!["RouteConfiguration checkout-routes".to_owned()],
            )),
            ..FolderStatus::default()
        };
        let (now, mut tally) = (Instant::now(), Tally::new(Instant::now()));
        let catalog = Arc::from("catalog");
        for port in [18105, 18106] {
            tally.succeeded(&catalog, ([127, 0, 0, 1], port).into(), now + SETTLE * 2);
        }
        let view = view(&status, &tally, now);
        let text = view.introduction() + &view.services() + &view.configuration();
        assert!(text.contains(" 50.0%   50.0%  █████\n"), "{text}");
        assert!(text.lines().count() < 24, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn failure_reason_is_shown_for_five_seconds() {
        let (start, status) = (
            Instant::now(),
            FolderStatus {
                plan: Arc::new(TrafficPlan::of(&shop(|text| text))),
                ..FolderStatus::default()
            },
        );
        let mut tally = Tally::new(start);
        tally.failed(
            &Arc::from("catalog"),
            start,
            "UNAVAILABLE: no route".to_owned(),
        );
        let fresh = view(&status, &tally, start).services();
        assert!(
            fresh.contains("1 failed\n  UNAVAILABLE: no route"),
            "{fresh}"
        );
        let later = view(&status, &tally, start + FAILURE_SHOWN * 2).services();
        assert!(
            later.contains("1 failed\n") && !later.contains("no route"),
            "{later}"
        );
    }
}
