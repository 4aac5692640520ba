//! The log level for the number given to `-v`.

/// Returns the log filter for a verbosity, like the levels of kube-apiserver: up to 2 for operators, 3 also a line for
/// each request, from 4 debug messages, from 6 all messages of this program.
///
/// Libraries are limited to errors: at lower levels they log the data that they process, including headers and so
/// credentials.
pub fn filter(verbosity: u8) -> &'static str {
    match verbosity {
        0..=2 => "info",
        3 => "info,access=debug",
        4..=5 => {
            "info,access=debug,portcullis=debug,portcullis_kinds=debug,portcullis_pki=debug,portcullis_policy=debug,portcullis_server=debug,portcullis_store=debug"
        }
        _ => {
            "info,access=trace,portcullis=trace,portcullis_kinds=trace,portcullis_pki=trace,portcullis_policy=trace,portcullis_server=trace,portcullis_store=trace"
        }
    }
}
