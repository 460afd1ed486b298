use gswarm_core::input::{Code, Severity, render};
use gswarm_learn::{Table, Values};
use rstest::rstest;

/// The codes and lines of what is wrong with a table.
fn faults(text: &[u8]) -> Vec<(&'static str, Option<u32>)> {
    let found = Table::read("t.csv", text.to_vec()).expect_err("a fault");
    found.iter().map(|fault| (fault.code.code(), fault.line)).collect()
}

#[rstest]
#[case::empty(b"", &[("E006", None)])]
#[case::only_a_header(b"a,b\n", &[("E006", None)])]
#[case::too_short(b"a,b\n1,2\n3\n5,6\n", &[("E502", Some(3))])]
#[case::too_long(b"a,b\n1,2\n3,4,5\n", &[("E502", Some(3))])]
#[case::not_a_number(b"a\n1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n", &[("E101", Some(11))])]
#[case::nan(b"a,b\n1,2\nNaN,3\n4,-inf\n", &[("E203", Some(3)), ("E203", Some(4))])]
#[case::negative_time(b"size,run_seconds\n1,2\n2,-0.5\n", &[("E202", Some(3))])]
#[case::same_name(b"a,a\n1,2\n", &[("E103", Some(1))])]
#[case::no_name(b"a,\n1,2\n", &[("E114", Some(1))])]
#[case::no_header(b"1,2\n3,4\n", &[("E102", Some(1))])]
#[case::not_utf8(b"a,b\n1,2\n\xff,3\n", &[("E001", Some(3))])]
#[case::several(b"a,b_seconds\n1\n1,-2\n1,nan\n", &[("E502", Some(2)), ("E202", Some(3)), ("E203", Some(4))])]
fn every_fault_has_a_code_and_a_line(#[case] text: &[u8], #[case] expected: &[(&str, Option<u32>)]) {
    assert_eq!(faults(text), expected);
}

#[test]
fn numbers_texts_quotes_and_empty_cells_are_read() {
    let text = "\u{feff}size,name,note\r\n1.5,\"a, b\",\r\n,c,x\r\n2e3,\"a, b\",\r\n";
    let table = Table::read("t.csv", text.into()).unwrap();
    assert_eq!((table.rows(), table.line(2)), (3, Some(4)));
    let Values::Numbers(sizes) = &table.column("size").unwrap().values else { panic!("no numbers") };
    assert!(sizes[0] == 1.5 && sizes[1].is_nan() && sizes[2] == 2000.0);
    let Values::Texts { codes, names } = &table.column("name").unwrap().values else { panic!("no texts") };
    assert_eq!(
        (codes.as_slice(), names.as_slice()),
        ([0, 1, 0].as_slice(), ["a, b".to_owned(), "c".to_owned()].as_slice())
    );
}

#[test]
fn a_million_faults_are_counted_and_few_are_kept() {
    let mut text = String::from("a,b\n");
    text.push_str(&"1\n".repeat(1_000_000));
    let found = Table::read("t.csv", text.into_bytes()).unwrap_err();
    assert_eq!(found.len(), 10_001);
    let last = found.last().unwrap();
    assert_eq!((last.code, last.severity), (Code::LeftOut, Severity::Warning));
    assert!(last.message.contains("990000 more errors"), "{}", last.message);
    assert!(render(&found).lines().count() < 200);
}

#[test]
fn a_file_that_is_not_there_or_is_damaged_is_a_fault() {
    let found = Table::read_file("no/such/file.csv".as_ref()).unwrap_err();
    assert_eq!(found[0].code, Code::NotATable);
    let found = Table::read("t.parquet", b"PAR1 and then nothing that belongs there".to_vec()).unwrap_err();
    assert_eq!(found[0].code, Code::NotATable);
    assert!(found[0].hint.is_some());
}

mod columnar {
    use super::*;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    fn written(seconds: &[f64]) -> Vec<u8> {
        let schema =
            "message t { required int64 size; optional binary device (UTF8); required double run_seconds; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[1, 2, 3], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let texts = [ByteArray::from("cpu"), ByteArray::from("gpu")];
        column.typed::<ByteArrayType>().write_batch(&texts, Some(&[1, 0, 1]), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(seconds, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn columns_are_read_with_their_gaps() {
        let table = Table::read("t.parquet", written(&[0.5, 1.5, 2.5])).unwrap();
        assert_eq!(table.rows(), 3);
        assert_eq!(table.column("size").unwrap().values, Values::Numbers(vec![1.0, 2.0, 3.0]));
        let names = vec!["cpu".to_owned(), "gpu".to_owned()];
        let codes = vec![0, gswarm_learn::table::NO_TEXT, 1];
        assert_eq!(table.column("device").unwrap().values, Values::Texts { codes, names });
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let found = Table::read("t.parquet", written(&[0.5, -1.5, f64::NAN])).unwrap_err();
        let codes: Vec<&str> = found.iter().map(|fault| fault.code.code()).collect();
        assert_eq!(codes, ["E202", "E203"]);
        assert_eq!(found[0].path, "run_seconds[1]");
    }
}
