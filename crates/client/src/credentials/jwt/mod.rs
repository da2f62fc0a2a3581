//! Call credentials from a file that contains a JWT (gRFC A97).

mod cache;
mod token;

use std::path::PathBuf;
use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use oxds_net::rpc::random;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::blocking::blocking;
use super::{CallCredentials, CallError, Pending};
use cache::{NextStep, TokenCache};
use token::Token;

/// Call credentials `authorization: Bearer …` with the token in a file, such as a Kubernetes service account token.
///
/// The file is read when a call needs it. A token counts as invalid 30 s before it expires, and the file is read again
/// from one minute before that. If a read fails, calls use the old token while it is valid. Without a valid token,
/// calls end with UNAVAILABLE, or with UNAUTHENTICATED if the file contains no valid token, and the file is read again
/// after gRPC's backoff.
#[derive(Debug)]
pub struct JwtTokenFile {
    path: PathBuf,
    /// Locked while the file is read, so that concurrent calls wait for the same read.
    cache: Mutex<TokenCache>,
}

impl JwtTokenFile {
    /// Creates credentials from this file, which is not read yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cache: Mutex::default(),
        }
    }

    /// Parses a `config`.
    pub(crate) fn parse(config: Option<&Value>) -> Result<Self, String> {
        let path = config.and_then(|config| config.get("jwt_token_file"));
        match path.and_then(Value::as_str) {
            Some(path) if !path.is_empty() => Ok(Self::new(path)),
            _ => Err("jwt_token_file: must be the path of a file".to_owned()),
        }
    }

    async fn header(&self) -> Result<HeaderValue, CallError> {
        let mut cache = self.cache.lock().await;
        match cache.next_step(SystemTime::now(), Instant::now()) {
            NextStep::Use(header) => return Ok(header),
            NextStep::Fail(error) => return Err(error),
            NextStep::Read => {}
        }
        let read = self.read().await;
        if let Err(error) = &read {
            let path = self.path.display();
            tracing::warn!(target: "oxds::credentials", "{path}: {error}");
        }
        cache.handle_read(read, SystemTime::now(), Instant::now(), random())
    }

    async fn read(&self) -> Result<Token, CallError> {
        let path = self.path.clone();
        let read = blocking(move || std::fs::read_to_string(path)).await;
        let text = read
            .and_then(|read| read)
            .map_err(|error| CallError::Unavailable(format!("{}: {error}", self.path.display())))?;
        token::parse(text.trim()).map_err(|fault| {
            CallError::Unauthenticated(format!("{}: {fault}", self.path.display()))
        })
    }
}

impl CallCredentials for JwtTokenFile {
    fn headers(&self) -> Pending<'_, Result<HeaderMap, CallError>> {
        Box::pin(async {
            let header = self.header().await?;
            Ok(HeaderMap::from_iter([(AUTHORIZATION, header)]))
        })
    }
}
