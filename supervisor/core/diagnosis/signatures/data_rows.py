"""Signatures: data and files that are missing or cannot be read."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    EXCEPTION,
    LIBRARY,
    benign,
    raised,
    row,
)

_PYTHON = "cpython: Objects/exceptions.c"

ROWS = (
    benign(
        "keras.ran_out_of_data",
        "ran out of data; interrupting",
        src="keras: src/trainers/epoch_iterator.py",
    ),
    benign(
        "tf.end_of_sequence",
        rx=r"OUT_OF_RANGE: End of sequence|Out of range: End of sequence",
        src="tensorflow: core/framework/local_rendezvous.cc at the end of a dataset",
    ),
    row(
        "tf.data_loss",
        Cause.DATA_ERROR,
        CAUSE - 5,
        "DATA_LOSS",
        "DataLossError",
        "Data loss:",
        "corrupted record at",
        "truncated record at",
        "Read fewer bytes than requested",
        "not an sstable (bad magic number)",
        src="tensorflow: tsl/lib/io/record_reader.cc, table.cc",
    ),
    row(
        "tf.image_undecodable",
        Cause.DATA_ERROR,
        CAUSE - 5,
        rx=r"Unknown image file format|Expected image \(JPEG|Invalid (?:JPEG|PNG|GIF)"
        r"|using a wrong op|cannot identify image|[Ii]mage file is truncated"
        r"|broken (?:data stream|PNG)|UnidentifiedImageError|libpng error: "
        r"|Error: .*imread_|!_?s(?:rc|size)\.empty\(\)|DecompressionBombError|moov atom not"
        r"|Invalid data found when processing|NoBackendError|LibsndfileError|Format not recogni"
        r"|premature end of data segment|DECORDError|NVJPEG (?:error|_STATUS)|ImageFileError"
        r"|Unable to determine ImageIO reader|RasterioIOError|InvalidDicomError|InvalidDataError"
        r"|[Ff]ailed to (?:open|decode) (?:the )?(?:audio|video|image)|wave\.Error: ",
        src="tensorflow: kernels/image/decode_image_op.cc; Pillow: Image.py, "
        "ImageFile.py; OpenCV; ffmpeg, PyAV, decord, audioread, libsndfile, "
        "libjpeg, nvJPEG, nibabel, SimpleITK, rasterio, pydicom: by their names",
    ),
    row(
        "tf.example_unparsable",
        Cause.DATA_ERROR,
        CAUSE - 5,
        rx=r"Could not parse example input|parse serialized Example"
        r"|\(data type: \w+\) is required but could not be found"
        r"|is closed and has insufficient elements",
        src="tensorflow: core/util/example_proto_fast_parsing.cc, queue_base.cc",
    ),
    row(
        "file.damaged",
        Cause.DATA_ERROR,
        CAUSE - 5,
        rx=r"truncated file|file signature not found|bad object header"
        r"|Unable to (?:synchronously )?open (?:file|object)|Bad(?:Zip|Gzip)File"
        r"|Not a gzipped file|zlib\.error|LZMAError|CRC check failed|Bad CRC-32"
        r"|before the end-of-stream marker|UnpicklingError"
        r"|PytorchStreamReader failed|archive is corrupted|HeaderTooLarge"
        r"|SafetensorError|InvalidHeaderDes|TensorSliceReader constructor"
        r"|Incomplete or corrupted file|[Uu]nexpected (?:EOF|end of file)"
        r"|Failed to interpret file .* as a pickle|tarfile\.ReadError"
        r"|HDF5-DIAG: Error detected|inflate\(\) failed|disk image is malformed|lmdb\.(?:Corr|Inv)"
        r"|Parquet magic bytes|NonMatching(?:Checksum|Splits)|[Cc]hecksum mismatch"
        r"|(?:hash|md5|MD5|sha256) mismatch|Corruption: |File not found: .*lmdb"
        r"|MDB_(?:CORRUPTED|INVALID|PAGE_NOTFOUND)|containing pickled data when allow_pickle|EOF: reading array data|mmap length is great"
        r"|struct\.error: unpack|hecksum does not match|Error opening .zarr. driver|LustreError"
        r"|EOFError: Ran out of input|magic string is not correct"
        r"|Failed to read file '.*' with error <class",
        src="hdf5: H5F*.c; cpython: zipfile, gzip, pickle; pytorch; safetensors; "
        "numpy; datasets: exceptions.py, packaged_modules/json; tensorstore; caffe: util/io.cpp; sqlite,"
        " lmdb, leveldb, parquet, Lustre: by their names",
    ),
    row(
        "tf.file_damaged",
        Cause.DATA_ERROR,
        CAUSE - 5,
        rx=r"(?:Corrupted|Truncated) Riegeli/records|Riegeli/records file got truncated"
        r"|Possible data corruption|Perhaps the file is corrupt|inputs corrupted\?"
        r"|[Tt]runcated (?:Zstd|Brotli)|(?:Zstd|Brotli)-compressed stream got truncated",
        src="tensorflow: strings of libtensorflow_cc.so.2 2.21 (riegeli, tensor_bundle)",
    ),
    row(
        "storage.failed",
        Cause.DATA_ERROR,
        CAUSE - 5,
        rx=r"^(?!.*NCCL WARN).*Input/output error|Errno (?:5|116|107|121)\]"
        r"|[Ss]tale (?:NFS )?file handle"
        r"|Transport endpoint is not connected|Remote I/O error"
        r"|Structure needs cleaning|URL fetch failure|file hash does not match"
        r"|I/O error, dev |Buffer I/O error on|EXT4-fs error|controller is down; will res"
        r"|executing an HTTP request|ConnectionError.*Max retries exceeded with url"
        r"|Could not connect to the endpoint URL",
        src="errno.h EIO, ESTALE, ENOTCONN, EREMOTEIO; keras: utils/file_utils.py; "
        "linux: block/blk-core.c, fs/ext4; tensorflow: curl_http_request.cc; requests",
    ),
    row(
        "tf.file_missing",
        Cause.DATA_ERROR,
        LIBRARY - 10,
        rx=r"(?:NOT_FOUND|Not found|NotFoundError|FileNotFoundError).*No such file"
        r"|[Ff]ailed to find any matching files"
        r"|(?:OSError|IOError): .*(?:No such file|does not exist)",
        src="tensorflow: tsl/platform/default/posix_file_system.cc",
    ),
    raised(
        "data.unreadable",
        Cause.DATA_ERROR,
        EXCEPTION + 4,
        "FileNotFoundError",
        "UnicodeDecodeError",
        "JSONDecodeError",
        "ParserError",
        "EmptyDataError",
        "ArrowInvalid",
        "ArrowIOError",
        "HTTPError",
        "URLError",
        "ClientError",
        "DataLossError",
        "ImageReadException",
        "DatasetGenerationError",
        "IncompleteReadError",
        "IncompleteRead",
        "ProtocolError",
        "ChunkedEncodingError",
        "EndpointConnectionError",
        "NoCredentialsError",
        "ReadTimeoutError",
        "ReadError",
        "SSLError",
        src=_PYTHON + "; pandas: errors; pyarrow; Hugging Face datasets",
    ),
    raised(
        "python.os_error",
        Cause.DATA_ERROR,
        EXCEPTION + 1,
        "OSError",
        "IOError",
        "EOFError",
        src=_PYTHON,
    ),
)
