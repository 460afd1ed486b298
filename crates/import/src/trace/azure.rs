//! `TIMESTAMP,ContextTokens,GeneratedTokens`: dates with seven digits behind the point, of which six are kept.

use super::{MAX_TOKENS, Trace, moment};
use crate::{File, table};

pub(super) fn read(file: &mut File<'_>, trace: &mut Trace) {
    let Some(mut rows) = table::open(file) else { return };
    let columns = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"].map(|name| rows.column(file, name));
    let [Some(stamp), Some(context), Some(generated)] = columns else { return };
    trace.dated = true;
    while let Some(row) = rows.next(file) {
        let at = moment(&row, file, stamp);
        let read = row.number(file, context, true, MAX_TOKENS);
        let written = row.number(file, generated, true, MAX_TOKENS);
        if let (Some(at), Some(read), Some(written)) = (at, read, written) {
            trace.push(at, "llm", read, written);
        }
    }
}
