//! `Timestamp,[Session ID,Elapsed time,]Model,Request tokens,Response tokens,Total tokens,Log Type`: seconds from midnight
//! of the first day. Requests that failed have no response tokens.

use super::{MAX_STAMP, MAX_TOKENS, Trace};
use crate::{File, table};
use gswarm_core::input::Code;

pub(super) fn read(file: &mut File<'_>, trace: &mut Trace) {
    let Some(mut rows) = table::open(file) else { return };
    let columns =
        ["Timestamp", "Model", "Request tokens", "Response tokens"].map(|name| rows.column(file, name));
    let [Some(stamp), Some(model), Some(request), Some(response)] = columns else { return };
    while let Some(row) = rows.next(file) {
        let seconds = row.number(file, stamp, true, MAX_STAMP);
        let read = row.number(file, request, true, MAX_TOKENS);
        let written = row.number(file, response, true, MAX_TOKENS);
        if row.cell(model).is_empty() {
            row.report(file, model, Code::Missing, "is missing");
        } else if let (Some(seconds), Some(read), Some(written)) = (seconds, read, written) {
            trace.push((seconds * 1e6).round() as i64, row.cell(model), read, written);
        }
    }
}
