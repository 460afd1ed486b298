//! Python objects as a document that gswarm reads as it does the text of a file.

use gswarm_core::input::document::{Document, DocumentBuilder, Kind, MAX_DEPTH};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// The document of an object; what is none of Python's own, `plain` turns into something that is.
pub fn document(value: &Bound<'_, PyAny>, plain: &Bound<'_, PyAny>) -> PyResult<Document<'static>> {
    let mut values = DocumentBuilder::default();
    add(&mut values, value, plain, 0)?;
    values.finish().ok_or_else(|| PyValueError::new_err("the limit is 2 GiB"))
}

fn add(
    values: &mut DocumentBuilder,
    value: &Bound<'_, PyAny>,
    plain: &Bound<'_, PyAny>,
    depth: usize,
) -> PyResult<()> {
    if depth > MAX_DEPTH {
        let why = format!("the objects are nested more than {MAX_DEPTH} levels deep, or part of themselves");
        return Err(PyValueError::new_err(why));
    }
    if let Ok(text) = value.cast::<PyString>() {
        values.scalar(Kind::Quoted, &text.to_string_lossy());
    } else if let Some(text) = scalar(value)? {
        values.scalar(Kind::Plain, &text);
    } else if let Ok(dict) = value.cast::<PyDict>() {
        let opened = values.open(Kind::Map);
        // A list of them: whoever turns a value into a plain one may change the mapping.
        let items = dict.items();
        for item in &items {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            values.scalar(Kind::Quoted, &name(&key)?);
            add(values, &value, plain, depth + 1)?;
        }
        values.close(opened, 2 * items.len());
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let opened = values.open(Kind::Seq);
        let mut count = 0;
        for item in value.try_iter()? {
            add(values, &item?, plain, depth + 1)?;
            count += 1;
        }
        values.close(opened, count);
    } else {
        add(values, &plain.call1((value,))?, plain, depth + 1)?;
    }
    Ok(())
}

/// What JSON writes without quotes; `None` for everything else.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() {
        return Ok(Some("null".to_owned()));
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Some(value.is_true().to_string()));
    }
    if value.is_instance_of::<PyInt>() {
        // Numbers that are more than numbers, such as those of an enumeration, have a text of their own.
        return Ok(Some(match value.extract::<i64>() {
            Ok(small) => small.to_string(),
            Err(_) => value.call_method0("__int__")?.str()?.to_string_lossy().into_owned(),
        }));
    }
    Ok(value.cast::<PyFloat>().ok().map(|value| match value.value() {
        value if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        value => format!("{value:?}"),
    }))
}

fn name(key: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(text.to_string_lossy().into_owned());
    }
    scalar(key)?.ok_or_else(|| {
        let kind = key.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        PyTypeError::new_err(format!("the keys of a mapping must be text, not {kind}"))
    })
}
