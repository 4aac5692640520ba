//! The table of kubelet endpoints (KA-11 to KA-22), and everything that is derived from a single row.

/// One endpoint of a kubelet: a pattern of its multiplexer, and the paths that are served below it.
#[derive(Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The path without a trailing slash: `/exec`.
    pub path: &'static str,
    /// The paths that belong to the endpoint.
    pub tree: Tree,
    /// The patterns that are served, relative to [`Self::path`]. `{name}` matches one segment, `{name...}` one or more;
    /// the empty pattern is the path itself.
    pub shapes: &'static [&'static str],
    /// The methods served.
    pub methods: Methods,
    /// A description of the response, for people.
    pub returns: &'static str,
    /// The permission that a caller needs.
    pub permission: Permission,
    /// The effect of a request.
    pub effect: Effect,
    /// The behaviour if the kubelet's debugging handlers are disabled (KA-22).
    pub without_debugging: Without,
}

/// The paths that belong to a pattern (KA-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// Only the path, without a trailing slash.
    Exact,
    /// The path, with and without a trailing slash, and everything below it.
    Root,
    /// The path with a trailing slash, and everything below it. Without the slash, the request is redirected (KA-8).
    Slash,
}

/// The methods that an endpoint serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// Any method; the handler ignores it.
    Any,
    /// These methods; others get 405.
    Only(&'static [&'static str]),
    /// These methods; others get 406.
    Acceptable(&'static [&'static str]),
}

impl Methods {
    /// Returns whether this method is served.
    pub fn serve(self, method: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(methods) | Self::Acceptable(methods) => methods.contains(&method),
        }
    }
}

/// Alternative subresources of `nodes`, in the order of the checks; one is enough (KA-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// With fine-grained authorization: always in Kubernetes 1.36.
    pub fine: &'static [&'static str],
    /// Without it.
    pub coarse: &'static [&'static str],
    /// With finer subresources that are not in Kubernetes. The same as `fine` if there are none.
    pub finer: &'static [&'static str],
}

/// The effect of a request on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Returns information.
    Reads,
    /// Changes the kubelet's state or writes to the node's disk, without running the caller's code.
    Changes,
    /// Runs the caller's code in a container, or attaches to a running process.
    RunsCode,
    /// Opens connections to the ports of a pod.
    Connects,
}

impl Effect {
    /// Returns whether the request reaches into a container, like `pods/exec`, `pods/attach` and `pods/portforward` of
    /// the API server, which require `create` for every method (KA-83).
    pub fn enters_container(self) -> bool {
        matches!(self, Self::RunsCode | Self::Connects)
    }
}

/// The behaviour of an endpoint if the debugging handlers are disabled (KA-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Unchanged; it is not a debugging handler.
    Stays,
    /// Responds with 405, after authorization. The path without a trailing slash is redirected.
    Disabled,
    /// Not served: 404, without authentication.
    Gone,
}

const GET: Methods = Methods::Only(&["GET"]);
const POST: Methods = Methods::Only(&["POST"]);
const GET_OR_POST: Methods = Methods::Only(&["GET", "POST"]);

const fn same(subresources: &'static [&'static str]) -> Permission {
    Permission { fine: subresources, coarse: subresources, finer: subresources }
}

/// A subresource of its own since fine-grained authorization (NC-27); `proxy` before, and still.
const fn fine(subresources: &'static [&'static str]) -> Permission {
    Permission { fine: subresources, coarse: &["proxy"], finer: subresources }
}

/// `proxy` in Kubernetes, and optionally a subresource of its own.
const fn finer(subresources: &'static [&'static str]) -> Permission {
    Permission { fine: &["proxy"], coarse: &["proxy"], finer: subresources }
}

/// The permission for every path that is not in the table (KA-39a).
pub(super) const UNKNOWN: Permission = same(&["proxy"]);

const PODS: Permission = fine(&["pods", "proxy"]);
const HEALTHZ: Permission = fine(&["healthz", "proxy"]);
const METRICS: Permission = same(&["metrics"]);

const CONTAINER: &[&str] = &["/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"];

/// A typical row: read-only, one path, any method, independent of the debugging handlers.
const fn page(path: &'static str, permission: Permission, returns: &'static str) -> Endpoint {
    Endpoint {
        path,
        tree: Tree::Exact,
        shapes: &[""],
        methods: Methods::Any,
        returns,
        permission,
        effect: Effect::Reads,
        without_debugging: Without::Stays,
    }
}

/// A row for an endpoint that reaches into containers.
const fn stream(
    path: &'static str,
    shapes: &'static [&'static str],
    methods: Methods,
    permission: Permission,
    returns: &'static str,
) -> Endpoint {
    Endpoint {
        tree: Tree::Root,
        shapes,
        methods,
        effect: Effect::RunsCode,
        without_debugging: Without::Disabled,
        ..page(path, permission, returns)
    }
}

/// Every endpoint of a kubelet 1.36.
pub const ENDPOINTS: &[Endpoint] = &[
    // KA-11, KA-32.
    page("/healthz", HEALTHZ, "whether the kubelet is well"),
    page("/healthz/ping", HEALTHZ, "whether the kubelet answers at all"),
    page("/healthz/log", HEALTHZ, "whether logs are written"),
    page("/healthz/syncloop", HEALTHZ, "whether pods are being worked on"),
    page("/healthz/device-plugin", HEALTHZ, "whether the device plugins' registration is served"),
    // KA-12, KA-30.
    Endpoint {
        tree: Tree::Root,
        methods: GET,
        ..page("/pods", PODS, "the pods of this node, with their whole specification")
    },
    // KA-13, KA-34.
    Endpoint {
        tree: Tree::Slash,
        shapes: &["/summary"],
        methods: GET_OR_POST,
        ..page("/stats", same(&["stats"]), "use of processor, memory, disk and network by pod and container")
    },
    // KA-14, KA-15, KA-35.
    page("/metrics", METRICS, "the kubelet's own metrics"),
    page("/metrics/cadvisor", METRICS, "metrics of the containers"),
    page("/metrics/resource", METRICS, "use of processor and memory, as the metrics server reads it"),
    page("/metrics/probes", METRICS, "results of the probes"),
    Endpoint {
        effect: Effect::Changes,
        ..page("/metrics/slis", METRICS, "service level indicators; DELETE sets them back")
    },
    // KA-16 to KA-18, KA-39a.
    stream("/run", CONTAINER, POST, finer(&["run", "proxy"]), "the output of a command, run in a container"),
    stream(
        "/exec",
        CONTAINER,
        GET_OR_POST,
        finer(&["exec", "proxy"]),
        "a stream to a command, run in a container",
    ),
    stream(
        "/attach",
        CONTAINER,
        GET_OR_POST,
        finer(&["attach", "proxy"]),
        "a stream to the process of a container",
    ),
    Endpoint {
        effect: Effect::Connects,
        ..stream(
            "/portForward",
            &["/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"],
            GET_OR_POST,
            finer(&["portforward", "proxy"]),
            "a stream to ports of a pod",
        )
    },
    // KA-19.
    Endpoint {
        effect: Effect::Reads,
        ..stream(
            "/containerLogs",
            &["/{namespace}/{pod}/{container}"],
            GET,
            finer(&["containerlogs", "proxy"]),
            "what a container has written",
        )
    },
    // KA-20, KA-31, KA-33, KA-37 to KA-39, NC-3.
    Endpoint {
        without_debugging: Without::Gone,
        ..page("/configz", fine(&["configz", "proxy"]), "the kubelet's configuration")
    },
    Endpoint {
        tree: Tree::Slash,
        methods: GET,
        without_debugging: Without::Disabled,
        ..page("/runningpods", PODS, "the pods that the container runtime runs, without their specification")
    },
    Endpoint {
        tree: Tree::Slash,
        shapes: &["/{namespace}/{pod}/{container}"],
        methods: POST,
        effect: Effect::Changes,
        without_debugging: Without::Gone,
        ..page(
            "/checkpoint",
            same(&["checkpoint"]),
            "the name of a file with the frozen container and its memory",
        )
    },
    Endpoint {
        without_debugging: Without::Gone,
        ..page("/flagz", same(&["configz"]), "the kubelet's flags")
    },
    Endpoint {
        without_debugging: Without::Gone,
        ..page("/statusz", same(&["statusz"]), "version and uptime of the kubelet")
    },
    // KA-21, KA-36.
    Endpoint {
        tree: Tree::Slash,
        shapes: &["", "/{path...}"],
        methods: GET,
        without_debugging: Without::Disabled,
        ..page(
            "/logs",
            same(&["log"]),
            "the files below /var/log of the node, or the journal of its services",
        )
    },
    Endpoint {
        tree: Tree::Slash,
        shapes: &["/{profile...}"],
        methods: GET,
        without_debugging: Without::Disabled,
        ..page("/debug/pprof", UNKNOWN, "profiles and the command line of the kubelet's process")
    },
    Endpoint {
        methods: Methods::Acceptable(&["PUT"]),
        effect: Effect::Changes,
        without_debugging: Without::Gone,
        ..page("/debug/flags/v", UNKNOWN, "nothing; sets how much the kubelet logs")
    },
];

impl Endpoint {
    /// The first segment of the path.
    fn word(&self) -> &'static str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    /// The name in metrics (KA-77): the first segment, or the first two below `/metrics`.
    pub fn bucket(&self) -> &'static str {
        match self.word() {
            "metrics" => self.path.strip_prefix('/').unwrap_or_default(),
            word => word,
        }
    }

    /// Returns whether a request may be upgraded to another protocol (KA-24).
    pub fn streams(&self) -> bool {
        self.effect.enters_container() && self.methods.serve("GET")
    }

    /// Returns whether the rest of a path after [`Self::path`] matches a pattern that is served (KA-9).
    pub(super) fn has_shape(&self, behind: &str) -> bool {
        let behind = behind.strip_suffix('/').unwrap_or(behind);
        self.shapes.iter().any(|shape| is_of_shape(shape, behind))
    }
}

fn is_of_shape(shape: &str, behind: &str) -> bool {
    let mut segments = behind.split('/');
    for part in shape.split('/') {
        let Some(segment) = segments.next() else { return false };
        if part.ends_with("...}") {
            return !segment.is_empty();
        }
        let is_taken = if part.starts_with('{') { !segment.is_empty() } else { segment == part };
        if !is_taken {
            return false;
        }
    }
    segments.next().is_none()
}

/// Returns the row of a decoded path: one with the same first segment (KA-28). Rows with the same first segment have
/// the same permission.
pub(super) fn row_of(path: &str) -> Option<&'static Endpoint> {
    let word = path.strip_prefix('/')?.split('/').next()?;
    ENDPOINTS.iter().find(|endpoint| endpoint.word() == word)
}

/// The metrics label of a decoded path, from a small closed set (KA-77, NC-11): the name of the endpoint, else `other`.
pub fn bucket(path: &str) -> &'static str {
    let Some(row) = row_of(path) else { return "other" };
    if row.word() != "metrics" || path.split('/').nth(2).is_none() {
        return row.bucket();
    }
    let is_it = |endpoint: &&Endpoint| endpoint.path.split('/').take(3).eq(path.split('/').take(3));
    ENDPOINTS.iter().find(is_it).map_or("other", Endpoint::bucket)
}

/// The metrics label of a method, from a small closed set (KA-77, NC-11): a method that a kubelet knows, else `other`.
pub fn method_bucket(method: &str) -> &'static str {
    const KNOWN: [&str; 8] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT"];
    KNOWN.into_iter().find(|known| *known == method).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ka_28_rows_of_one_first_segment_ask_for_the_same() {
        for endpoint in ENDPOINTS {
            let row = row_of(endpoint.path).unwrap();
            assert_eq!(row.permission, endpoint.permission, "{}", endpoint.path);
            assert_eq!(
                row.effect.enters_container(),
                endpoint.effect.enters_container(),
                "{}",
                endpoint.path
            );
        }
    }

    #[test]
    fn ka_77_metrics_have_few_names() {
        for (path, name) in [
            ("/pods", "pods"),
            ("/pods/x/y", "pods"),
            ("/portForward/ns/p", "portForward"),
            ("/healthz/ping", "healthz"),
            ("/metrics", "metrics"),
            ("/metrics/cadvisor", "metrics/cadvisor"),
            ("/metrics/nosuch", "other"),
            ("/debug/pprof/heap", "debug"),
            ("/nosuch", "other"),
            ("/", "other"),
            ("//pods", "other"),
            ("*", "other"),
            ("", "other"),
        ] {
            assert_eq!(bucket(path), name, "{path}");
        }
        assert_eq!(
            (method_bucket("GET"), method_bucket("PATCH"), method_bucket("get")),
            ("GET", "other", "other")
        );
    }

    #[test]
    fn ka_9_shapes_count_segments() {
        let exec = row_of("/exec").unwrap();
        for (behind, is_served) in [
            ("/ns/p/c", true),
            ("/ns/p/c/", true),
            ("/ns/p/uid/c", true),
            ("/ns/p", false),
            ("/ns/p/uid/c/x", false),
            ("/ns//c", false),
            ("", false),
            ("/", false),
        ] {
            assert_eq!(exec.has_shape(behind), is_served, "{behind}");
        }
        let logs = row_of("/logs").unwrap();
        assert!(logs.has_shape("/") && logs.has_shape("/a") && logs.has_shape("/a/b/"));
    }
}
