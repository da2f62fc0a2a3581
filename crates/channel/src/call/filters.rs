//! HTTP filters of one RPC: before its first attempt, and at the head of its response (gRFC A39).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::header::SET_COOKIE;
use http::{HeaderMap, Request, StatusCode};
use oxds_client::RequestHeaders;
use oxds_core::lb::{AbortStatus, FaultConfig, Faults};
use oxds_core::resource::{CustomFilter, FilterConfig};
use oxds_net::rpc::random;
use tonic::{Code, Status};

use crate::attempt::status;
use crate::filter::{AddedFilter, FilterRequest};
use crate::session::{CallSession, SessionCookie};
use crate::stream::RequestBody;

/// Number of faults that are active in the process (gRFC A33).
static ACTIVE_FAULTS: AtomicU32 = AtomicU32::new(0);

/// Counts an active fault until dropped.
struct ActiveFault;

impl ActiveFault {
    fn begin() -> Self {
        ACTIVE_FAULTS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for ActiveFault {
    fn drop(&mut self) {
        ACTIVE_FAULTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the filters in order. The first failure ends the RPC. Returns the session of the RPC, if it has one.
///
/// The reference to the request is exclusive only because bodies are `Send` and not `Sync`.
pub(super) async fn run(
    filters: &[FilterConfig],
    request: &mut Request<RequestBody>,
) -> Result<Option<CallSession>, Status> {
    let mut session = None;
    for filter in filters {
        match filter {
            FilterConfig::Fault(config) => inject(config, request.headers()).await?,
            FilterConfig::Custom(custom) => run_added(custom, request).await?,
            // As in gRPC: of several sessions, the last one counts.
            FilterConfig::Session(Some(config)) => {
                session =
                    CallSession::of(config, request.uri().path(), request.headers()).or(session);
            }
            // gRFC A41: RBAC is a filter of servers; here it can only come from an override that belongs to no filter.
            FilterConfig::Session(None) | FilterConfig::Rbac(_) => {}
        }
    }
    Ok(session)
}

/// Runs the filters at the head of the response, in reverse order. The filter of the session adds its cookie.
pub(super) fn respond(
    filters: &[FilterConfig],
    headers: &mut HeaderMap,
    cookie: Option<&SessionCookie>,
) {
    for filter in filters.iter().rev() {
        match filter {
            FilterConfig::Custom(custom) => {
                if let Some(AddedFilter(filter)) = custom.parsed().downcast_ref() {
                    filter.response(headers);
                }
            }
            FilterConfig::Session(Some(config)) => {
                if let Some(cookie) = cookie
                    && Arc::ptr_eq(&cookie.config, config)
                {
                    headers.append(SET_COOKIE, cookie.value.clone());
                }
            }
            FilterConfig::Session(None) | FilterConfig::Fault(_) | FilterConfig::Rbac(_) => {}
        }
    }
}

async fn run_added(
    custom: &CustomFilter,
    request: &mut Request<RequestBody>,
) -> Result<(), Status> {
    let Some(AddedFilter(filter)) = custom.parsed().downcast_ref() else {
        let name = &custom.config().type_name;
        return Err(Status::internal(format!(
            "the HTTP filter {name} was not added with HttpFilters::with_filter"
        )));
    };
    let path = request.uri().path().to_owned();
    let mut headers = std::mem::take(request.headers_mut());
    let result = filter
        .request(FilterRequest {
            path: &path,
            headers: &mut headers,
            extensions: request.extensions_mut(),
        })
        .await;
    *request.headers_mut() = headers;
    result
}

/// Delays and aborts the RPC, as the fault filter is configured (gRFC A33, C-237).
async fn inject(config: &FaultConfig, headers: &HeaderMap) -> Result<(), Status> {
    let active = || ACTIVE_FAULTS.load(Ordering::Relaxed);
    let faults = config.draw(&RequestHeaders(headers), active, random);
    let Faults { delay, abort } = faults;
    if let Some(delay) = delay {
        let _active = ActiveFault::begin();
        tokio::time::sleep(delay).await;
    }
    match abort {
        Some(status) => Err(Status::new(code_of(status), "fault injected")),
        None => Ok(()),
    }
}

fn code_of(status: AbortStatus) -> Code {
    match status {
        AbortStatus::Grpc(code) => Code::from(i32::try_from(code).unwrap_or_default()),
        // gRFC A33: the HTTP status stands for its gRPC status; 200 is UNKNOWN.
        AbortStatus::Http(status) => {
            StatusCode::from_u16(status).map_or(Code::Unknown, status::code_of_http)
        }
    }
}
