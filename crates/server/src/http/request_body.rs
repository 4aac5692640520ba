//! Bodies of requests: read whole within limits, or drained.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use super::budget::Charge;
use super::limits::Limits;
use super::listener::Connection;
use super::status::{Answer, Status};

/// As in Go's server.
const DRAIN_BYTES: usize = 256 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Reads a complete body.
///
/// # Errors
/// 413 for a body that is too large, by its declared or its actual length; 408 if it does not arrive in time; 400 if it
/// is truncated; 429 if the caller makes the server hold too much.
pub(crate) async fn read(
    head: &Parts,
    body: &mut Incoming,
    limits: &Limits,
    charge: &mut Charge,
) -> Result<Bytes, Status> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let too_large = || Status::too_large(limits.body_bytes);
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|n| usize::try_from(n).map_or(true, |n| n > limits.body_bytes)) {
        if !head.headers.contains_key(EXPECT) {
            // As in Go's server, a body that is a little too large is read, so that its sender sees the answer.
            drain(body, limits.body_bytes.saturating_add(DRAIN_BYTES), limits.body_read).await;
        }
        return Err(too_large());
    }
    let collecting = async {
        let mut collected = BytesMut::new();
        // Copied into one buffer: a body in many small frames would otherwise take many times its size.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| Status::bad_request(format!("cannot read the body: {e}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if collected.len() + data.len() > limits.body_bytes {
                return Err(too_large());
            }
            if !charge.grow(data.len()) {
                return Err(Status::holds_too_much(limits.held_bytes));
            }
            if collected.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            collected.extend_from_slice(&data);
        }
        Ok(collected.freeze())
    };
    timeout(limits.body_read, collecting).await.unwrap_or_else(|_| Err(Status::timeout()))
}

/// Discards the unread request body before the response is sent, because many clients read no response before they have
/// sent everything. A client that `expects` to be told to continue is not told.
pub(crate) async fn end<P>(
    connection: &Connection<P>,
    body: &mut Incoming,
    expects: bool,
    answer: &mut Answer,
) {
    if body.is_end_stream() {
        return;
    }
    if !expects && let Some(_draining) = connection.activity.drain() {
        drain(body, DRAIN_BYTES, DRAIN_TIME).await;
    }
    if !body.is_end_stream() && !connection.is_http2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Discards a body, unless it is larger than this. What is read of it is not kept.
async fn drain(body: &mut Incoming, most: usize, time: Duration) {
    if usize::try_from(body.size_hint().lower()).map_or(true, |length| length > most) {
        return;
    }
    let discarding = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // If the body does not arrive or end, closing the connection cuts it off.
    let _ = timeout(time, discarding).await;
}
