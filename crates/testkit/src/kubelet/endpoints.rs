//! The handlers behind authentication and authorization: which method each path serves, and its answers (KA-9, KA-11 to
//! KA-24).

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::body::{Answer, Lines, line};
use super::handler::{Asked, answer, parameter, text};
use super::options::Options;
use super::state::Open;
use super::streams;

/// Lines of a container's log that is not followed.
const LINES: usize = 3;

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

fn json(body: impl Into<Bytes>) -> Response<Answer> {
    answer(StatusCode::OK, JSON, body)
}

fn not_found() -> Response<Answer> {
    text(StatusCode::NOT_FOUND, "404: Page Not Found")
}

fn disabled(what: &str) -> Response<Answer> {
    text(StatusCode::METHOD_NOT_ALLOWED, format!("{what} are disabled.\n"))
}

/// Answers a request that was authorized. A path below a root that does not serve it is 404 before the method counts.
pub(super) async fn route(asked: &Asked<'_>, mut request: Request<Incoming>) -> Response<Answer> {
    let options = &asked.state.options;
    let path = asked.path.strip_suffix('/').unwrap_or(asked.path);
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let method = request.method().clone();
    if !options.debugging_handlers && !matches!(segments[0], "healthz" | "pods" | "stats" | "metrics") {
        return disabled("Debug endpoints");
    }
    let served: &[Method] = match segments[..] {
        ["healthz" | "metrics", ..] | ["configz" | "flagz" | "statusz"] | ["debug", "flags", "v"] => {
            return any(options, &segments, request).await;
        }
        ["logs", ..] if !options.system_log_handler => return disabled("Logs endpoint"),
        ["debug", "pprof", ..] if !options.profiling_handler => return disabled("Profiling endpoint"),
        ["pods" | "runningpods"] | ["logs", ..] | ["debug", "pprof", ..] => &[Method::GET],
        ["containerLogs", _, _, _] => &[Method::GET],
        ["stats", "summary"] => &[Method::GET, Method::POST],
        ["run", _, _, _] | ["run", _, _, _, _] | ["checkpoint", _, _, _] => &[Method::POST],
        ["exec" | "attach", _, _, _] | ["exec" | "attach", _, _, _, _] => &[Method::GET, Method::POST],
        ["portForward", _, _] | ["portForward", _, _, _] => &[Method::GET, Method::POST],
        _ => return not_found(),
    };
    if !served.contains(&method) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
        let names: Vec<&str> = served.iter().map(Method::as_str).collect();
        let names = HeaderValue::from_str(&names.join(", ")).expect("names of methods");
        response.headers_mut().insert(ALLOW, names);
        return response;
    }
    match segments[..] {
        ["pods" | "runningpods"] => json(asked.state.pod_list.clone()),
        ["stats", _] => json("{\"node\":{\"nodeName\":\"node-1\"},\"pods\":[]}\n"),
        ["logs"] => answer(StatusCode::OK, HTML, "<pre>\n<a href=\"syslog\">syslog</a>\n</pre>\n"),
        ["logs", "syslog"] => text(StatusCode::OK, "node-1 kubelet: started\n"),
        ["logs", ..] => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        ["debug", ..] => text(StatusCode::OK, "kubelet\0--fake"),
        ["exec" | "attach", ..]
            if !["input", "output", "error"].iter().any(|s| parameter(asked.query, s) == Some("1")) =>
        {
            text(StatusCode::BAD_REQUEST, "you must specify at least 1 of stdin, stdout, stderr\n")
        }
        ["run" | "exec" | "attach", ns, pod, _, container] if !knows(options, ns, pod, Some(container)) => {
            no_pod(ns, pod)
        }
        ["run" | "exec" | "attach", ns, pod, container] if !knows(options, ns, pod, Some(container)) => {
            no_pod(ns, pod)
        }
        ["containerLogs" | "checkpoint", ns, pod, container] if !knows(options, ns, pod, Some(container)) => {
            no_pod(ns, pod)
        }
        ["portForward", ns, pod, ..] if !knows(options, ns, pod, None) => no_pod(ns, pod),
        ["run", ..] => {
            let command = parameter(asked.query, "cmd").unwrap_or_default();
            let length = length(request.body_mut()).await;
            text(StatusCode::OK, format!("ran {command:?}, read {length} bytes\n"))
        }
        ["checkpoint", ns, pod, container] => json(format!(
            "{{\"items\":[\"/var/lib/kubelet/checkpoints/checkpoint-{pod}_{ns}-{container}.tar\"]}}"
        )),
        ["containerLogs", ..] => logs(asked),
        ["portForward", ..] => streams::upgrade(asked, request, streams::PORT_FORWARD),
        _ => streams::upgrade(asked, request, streams::REMOTE_COMMAND),
    }
}

/// The endpoints that check the method themselves, or not at all.
async fn any(options: &Options, segments: &[&str], mut request: Request<Incoming>) -> Response<Answer> {
    match segments {
        ["healthz", ..] => text(StatusCode::OK, "ok"),
        ["metrics", "slis"] if request.method() == Method::DELETE => text(StatusCode::OK, "reset\n"),
        ["metrics", ..] => text(StatusCode::OK, metrics(options)),
        ["configz"] => json("{\"kubeletconfig\":{\"kind\":\"KubeletConfiguration\"}}"),
        ["flagz"] => text(StatusCode::OK, "\nkubelet flags\nv=2\n"),
        ["statusz"] => text(StatusCode::OK, "\nkubelet statusz\nBinary version: 1.36.0\n"),
        _ if !options.debug_flags_handler => disabled("Debug flags endpoint"),
        _ if request.method() != Method::PUT => text(StatusCode::NOT_ACCEPTABLE, "unrecognized method\n"),
        _ => {
            let body = whole(request.body_mut()).await;
            let level = std::str::from_utf8(&body).ok().and_then(|text| text.parse::<i32>().ok());
            match level {
                Some(level) => text(StatusCode::OK, format!("successfully set verbosity to {level}")),
                None => text(StatusCode::BAD_REQUEST, "the body is no verbosity\n"),
            }
        }
    }
}

fn metrics(options: &Options) -> String {
    // Where it can be off at all it is not yet stable (KA-74, KA-75).
    let (stage, gate) = if options.fine_grained { ("", 1) } else { ("BETA", 0) };
    format!(
        "# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a \
         k8s feature.\n# TYPE kubernetes_feature_enabled gauge\n\
         kubernetes_feature_enabled{{name=\"KubeletFineGrainedAuthz\",stage=\"{stage}\"}} {gate}\n"
    )
}

fn knows(options: &Options, namespace: &str, pod: &str, container: Option<&str>) -> bool {
    options.pods.iter().any(|known| {
        known.namespace == namespace
            && known.name == pod
            && container.is_none_or(|container| known.containers.iter().any(|name| name == container))
    })
}

fn no_pod(namespace: &str, pod: &str) -> Response<Answer> {
    text(StatusCode::NOT_FOUND, format!("pod {namespace}/{pod} does not exist here\n"))
}

/// Reads a body to its end, of which only the start is kept.
async fn whole(body: &mut Incoming) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = next(body).await {
        if let Ok(data) = frame.into_data()
            && bytes.len() < 1024
        {
            bytes.extend_from_slice(&data);
        }
    }
    bytes
}

async fn length(body: &mut Incoming) -> usize {
    let mut length = 0;
    while let Some(Ok(frame)) = next(body).await {
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    length
}

async fn next(body: &mut Incoming) -> Option<Result<hyper::body::Frame<Bytes>, hyper::Error>> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx)).await
}

/// The log of a container: some lines, lines without end, or a pattern of some length.
fn logs(asked: &Asked<'_>) -> Response<Answer> {
    let options = &asked.state.options;
    let body = if let Some(bytes) = parameter(asked.query, "bytes") {
        let announced = parameter(asked.query, "announced") == Some("true");
        Answer::Pattern { left: bytes.parse().unwrap_or(0), announced }
    } else if parameter(asked.query, "follow") == Some("true") {
        let open = Open::new(&asked.state.open);
        Answer::Lines(Lines {
            ticks: ticks(options.follow_every),
            sent: 0,
            end: options.follow_lines,
            _open: open,
        })
    } else if let Some(left) = options.log_bytes {
        Answer::Pattern { left, announced: false }
    } else {
        Answer::Whole(Some((1..=LINES).map(line).collect::<String>().into()))
    };
    let mut response = text(StatusCode::OK, "");
    *response.body_mut() = body;
    response
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every.max(Duration::from_micros(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
