//! Tables as files.

use super::{NO_TEXT, Table, Values};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

impl Table {
    /// Writes CSV; what is missing is empty.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut file = csv::Writer::from_writer(out);
        file.write_record(self.columns.iter().map(|column| &column.name))?;
        for row in 0..self.rows {
            file.write_record(self.columns.iter().map(|column| match &column.values {
                Values::Numbers(numbers) if numbers[row].is_nan() => String::new(),
                Values::Numbers(numbers) => numbers[row].to_string(),
                Values::Texts { codes, names } => names.get(codes[row] as usize).cloned().unwrap_or_default(),
            }))?;
        }
        file.flush()
    }

    /// Writes Parquet, compressed; what is missing is null.
    pub fn write_parquet(&self, out: &mut (dyn Write + Send)) -> io::Result<()> {
        let field = |column: &super::Column| match column.values {
            Values::Numbers(_) => format!("optional double {};", column.name),
            Values::Texts { .. } => format!("optional binary {} (STRING);", column.name),
        };
        let fields: Vec<String> = self.columns.iter().map(field).collect();
        let schema = parse_message_type(&format!("message table {{ {} }}", fields.join(" ")))?;
        let compression = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for column in &self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            match &column.values {
                Values::Numbers(numbers) => {
                    let there: Vec<i16> = numbers.iter().map(|number| i16::from(!number.is_nan())).collect();
                    let values: Vec<f64> =
                        numbers.iter().copied().filter(|number| !number.is_nan()).collect();
                    writer.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
                }
                Values::Texts { codes, names } => {
                    let there: Vec<i16> = codes.iter().map(|&code| i16::from(code != NO_TEXT)).collect();
                    let texts = codes.iter().filter_map(|&code| names.get(code as usize));
                    let values: Vec<ByteArray> = texts.map(|text| ByteArray::from(text.as_str())).collect();
                    writer.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)?;
                }
            }
            writer.close()?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Column, Table, Values};

    #[test]
    fn what_is_written_is_read_again() {
        let numbers = Values::Numbers(vec![1.5, f64::NAN, -3e-9]);
        let columns = vec![
            Column { name: "number".to_owned(), values: numbers },
            Column { name: "text".to_owned(), values: ["a, b", "", "a \"b\""].into_iter().collect() },
        ];
        let table = Table::new("t", columns);
        let (mut csv, mut parquet) = (Vec::new(), Vec::new());
        table.write_csv(&mut csv).unwrap();
        table.write_parquet(&mut parquet).unwrap();
        assert_eq!(
            String::from_utf8(csv.clone()).unwrap(),
            "number,text\n1.5,\"a, b\"\n,\n-0.000000003,\"a \"\"b\"\"\"\n"
        );
        let read = Table::read("t", parquet).unwrap();
        // What is missing is no number, and equals nothing.
        assert_eq!(format!("{:?}", read.columns()), format!("{:?}", table.columns()));
    }
}
