//! The header `rpc-behavior`, by which a caller selects how the server handles a call.
//!
//! ```text
//!   rpc-behavior: sleep-2, hostname=a error-code-14
//!                 └ step ┘ └ only there ┘ └ step ┘
//! ```
//!
//! The steps run in order: `sleep-N` waits and continues, `keep-open` never answers, `error-code-N` ends the call,
//! `succeed-on-retry-attempt-N` ends the steps at that attempt.

use std::time::Duration;

use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

/// The header name; several headers, and several steps in one, form one list.
pub(crate) const BEHAVIOUR: &str = "rpc-behavior";
/// Number of the attempt, from a client that retries (gRFC A6); absent for the first.
const ATTEMPTS: &str = "grpc-previous-rpc-attempts";

/// One step, for one host or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    only: Option<String>,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Sleep(Duration),
    KeepOpen,
    Fail(Code),
    SucceedOnAttempt(u32),
}

/// A malformed step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{BEHAVIOUR}: {0:?}: expected [hostname=HOST ]sleep-SECONDS, keep-open, error-code-1…16, succeed-on-retry-attempt-N"
)]
pub(super) struct NoStep(String);

/// Parses the steps of all values of the header.
pub(super) fn parse<'a>(values: impl Iterator<Item = &'a str>) -> Result<Vec<Step>, NoStep> {
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| step(text).ok_or_else(|| NoStep(text.to_owned())))
        .collect()
}

fn step(text: &str) -> Option<Step> {
    let (only, text) = match text.strip_prefix("hostname=") {
        Some(rest) => {
            let (host, text) = rest.split_once(' ')?;
            (Some(host.to_owned()), text.trim())
        }
        None => (None, text),
    };
    let number = |prefix: &str| text.strip_prefix(prefix)?.parse::<u32>().ok();
    let action = if text == "keep-open" {
        Action::KeepOpen
    } else if let Some(seconds) = number("sleep-") {
        Action::Sleep(Duration::from_secs(seconds.into()))
    } else if let Some(attempt) = number("succeed-on-retry-attempt-") {
        Action::SucceedOnAttempt(attempt)
    } else {
        let code = number("error-code-").filter(|code| (1..=16).contains(code))?;
        Action::Fail(Code::from_i32(i32::try_from(code).ok()?))
    };
    Some(Step { only, action })
}

/// Number of attempts before this one.
pub(super) fn previous_attempts(metadata: &MetadataMap) -> u32 {
    let value = metadata.get(ATTEMPTS).and_then(|value| value.to_str().ok());
    value.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Runs the steps that concern `host`, and returns whether a response follows.
pub(super) async fn act(steps: &[Step], host: &str, attempts: u32) -> Result<(), Status> {
    let concerns = |step: &&Step| step.only.as_ref().is_none_or(|only| only == host);
    for step in steps.iter().filter(concerns) {
        match step.action {
            Action::Sleep(time) => tokio::time::sleep(time).await,
            // The client's deadline or disconnect drops this future.
            Action::KeepOpen => std::future::pending().await,
            Action::Fail(code) => {
                return Err(Status::new(code, format!("{BEHAVIOUR} asks for it")));
            }
            Action::SucceedOnAttempt(attempt) if attempt == attempts => return Ok(()),
            Action::SucceedOnAttempt(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<Step> {
        parse(std::iter::once(text)).unwrap()
    }

    #[tokio::test]
    async fn steps_end_with_the_first_that_ends_the_call() {
        let steps = parsed("succeed-on-retry-attempt-2, error-code-8, keep-open");
        let status = act(&steps, "a", 0).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(act(&steps, "a", 2).await.is_ok());
    }

    #[tokio::test]
    async fn a_step_for_another_host_is_skipped() {
        let steps = parsed("hostname=b error-code-14");
        assert!(act(&steps, "a", 0).await.is_ok());
        assert!(act(&steps, "b", 0).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_goes_on_and_an_open_call_stays_open() {
        let began = tokio::time::Instant::now();
        act(&parsed("sleep-3,sleep-4"), "a", 0).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(7));
        let steps = parsed("keep-open");
        let open = act(&steps, "a", 0);
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, open).await.is_err());
    }

    #[test]
    fn several_values_are_one_list() {
        let values = ["sleep-1", " , keep-open"];
        let steps = parse(values.into_iter()).unwrap();
        assert_eq!(steps.len(), 2);
    }

    #[test]
    fn malformed_step_is_refused() {
        for text in [
            "sleep-",
            "sleep--1",
            "error-code-0",
            "error-code-17",
            "hostname=a",
            "hostname=a nap-1",
            "keep-opened",
        ] {
            let refused = parse(std::iter::once(text)).unwrap_err();
            assert_eq!(refused, NoStep(text.to_owned()));
        }
    }
}
