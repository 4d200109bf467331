// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts about operators, by name: their meaning is in OperatorBase.td.

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

// Matmuls, convolutions, recurrences; what sorts or solves.
def : Costly<All<["_cdist_forward", "_convolution", "_embedding_bag", "_fft_c2c",
                  "_fft_c2r", "_fft_r2c", "_grouped_mm",
                  "_native_multi_head_attention",
                  "addbmm", "addmm", "argsort", "baddbmm", "bilinear", "bmm",
                  "cdist", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
                  "conv_transpose2d", "convolution", "cudnn_convolution_add_relu",
                  "cudnn_convolution_relu", "einsum", "gru", "gru_cell",
                  "linalg_cholesky", "linalg_inv", "linalg_solve", "linear",
                  "lstm", "lstm_cell", "matmul", "mkldnn_rnn_layer", "mm",
                  "rnn_tanh", "scaled_dot_product_attention",
                  "_scaled_dot_product_cudnn_attention",
                  "_scaled_dot_product_cudnn_attention_backward",
                  "_scaled_dot_product_efficient_attention",
                  "_scaled_dot_product_efficient_attention_backward",
                  "_scaled_dot_product_flash_attention_for_cpu",
                  "_scaled_dot_product_flash_attention_for_cpu_backward",
                  "searchsorted",
                  "sort", "topk"]>.Of
             # ["pyjit::efficient_attention",
                "pyjit::efficient_attention_backward",
                "pyjit::recurrence_backward",
                "pyjit::host_recurrence", "pyjit::host_recurrence_backward",
                "pyjit::host_recurrence_double_backward"]>;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def : Allocates<All<["empty", "empty_like", "empty_permuted", "empty_quantized",
                     "empty_strided", "new_empty", "new_empty_strided"]>.Of>;

defvar likes = All<["empty_like", "full_like", "new_empty", "new_empty_strided",
                    "new_full", "new_ones", "new_zeros", "ones_like",
                    "rand_like", "randint_like", "randn_like", "zeros_like"]>.Of
               # ["prims::full_like.*"];
def : MakesTensor<likes>;
def : Overwrites<0, likes>;
def : LastResultOpaque<All<["mkldnn_rnn_layer"]>.Of>;
// Random fills: functional, or on a copy.
def : Overwrites<0, All<["fill", "zero", "copy", "normal_functional", "uniform",
                         "normal_", "uniform_", "bernoulli_", "random_",
                         "exponential_"]>.Of>;
// In training, the noise is what it draws.
def : Overwrites<1, All<["rrelu_with_noise", "rrelu_with_noise_",
                         "rrelu_with_noise_backward",
                         "rrelu_with_noise_functional"]>.Of>;

def : AddressesStorage<All<["as_strided", "as_strided_", "as_strided_copy",
                            "as_strided_scatter"]>.Of>;
foreach name = ["mm", "addmm", "bmm", "baddbmm", "_addmm_activation"] in
  def : DestinationForm<"aten::" # name # ".out", One<[name]>.Of>;
def : ReplacesStorage<All<["set_", "set_data"]>.Of>;

def : ViewRule<"Alias", All<["alias", "detach"]>.Of>;
def : ViewRule<"Reshaped", All<["view_as", "view", "_unsafe_view",
                                "_reshape_alias", "unflatten", "flatten",
                                "reshape"]>.Of>;
def : ViewRule<"Expanded", All<["expand", "expand_as", "broadcast_to"]>.Of>;
def : ViewRule<"Select", All<["select"]>.Of>;
def : ViewRule<"Slice", All<["slice"]>.Of>;
def : ViewRule<"Split", All<["split", "unsafe_split"]>.Of>;
def : ViewRule<"SplitWithSizes", All<["split_with_sizes",
                                      "unsafe_split_with_sizes"]>.Of>;
def : ViewRule<"Unbind", All<["unbind"]>.Of>;
def : ViewRule<"Narrow", All<["narrow"]>.Of>;
def : ViewRule<"Permute", All<["permute"]>.Of>;
def : ViewRule<"T", All<["t"]>.Of>;
def : ViewRule<"Transpose", All<["transpose"]>.Of>;
def : ViewRule<"Squeeze", All<["squeeze"]>.Of>;
def : ViewRule<"Unsqueeze", All<["unsqueeze"]>.Of>;
def : ViewRule<"Diagonal", All<["diagonal"]>.Of>;
def : ViewRule<"Unfold", All<["unfold"]>.Of>;

foreach name = ["squeeze", "unsqueeze", "t"] in
  def : ShapeChange<"aten::" # name, ["aten::" # name # "_"]>;
def : ShapeChange<"aten::squeeze.dim", ["aten::squeeze_.dim"]>;
def : ShapeChange<"aten::squeeze.dims", ["aten::squeeze_.dims"]>;
def : ShapeChange<"aten::transpose.int", ["aten::transpose_"]>;

foreach name = ["view_as_real", "view_as_complex"] in
  def : RetypedView<"aten::" # name # "_copy", ["aten::" # name]>;
def : RetypedView<"aten::view_copy.dtype", ["aten::view.dtype"]>;
// What is left to be conjugated, or negated, is that in the program.
def : RetypedView<"aten::_conj_physical", ["aten::_conj"]>;
def : RetypedView<"aten::neg", ["aten::_neg_view"]>;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

// Moves weights into one storage.
def : WritesUnsaid<One<["_cudnn_rnn_flatten_weight"]>.Of>;
// Lengths of packed sequences, and places to split at.
def : ReadsDataUnsaid<One<["lstm.data", "gru.data", "rnn_tanh.data",
                           "rnn_relu.data", "_pad_packed_sequence",
                           "_pack_padded_sequence",
                           "tensor_split.tensor_indices_or_sections"]>.Of>;
def : ShapeFollows<["aten::*", "prims::*", "mkldnn::*", "torchvision::roi_align",
                    "torchvision::roi_pool", "torchvision::ps_roi_align",
                    "torchvision::ps_roi_pool", "torchvision::deform_conv2d"]>;

// Views, and what copies where no view can show it.
def : SizeRule<"Alias", All<["alias", "detach", "lift_fresh"]>.Of>;
def : SizeRule<"Transpose", All<["transpose", "swapaxes"]>.Of>;
def : SizeRule<"T", All<["t"]>.Of>;
def : SizeRule<"Permute", All<["permute"]>.Of>;
def : SizeRule<"Select", All<["select"]>.Of>;
def : SizeRule<"Slice", All<["slice"]>.Of>;
def : SizeRule<"Narrow", All<["narrow"]>.Of>;
def : SizeRule<"Split", All<["split", "unsafe_split"]>.Of>;
def : SizeRule<"SplitWithSizes", All<["split_with_sizes"]>.Of>;
def : SizeRule<"Unbind", All<["unbind"]>.Of>;
def : SizeRule<"Unsqueeze", All<["unsqueeze"]>.Of>;
def : SizeRule<"Squeeze", All<["squeeze"]>.Of>;
def : SizeRule<"Expand", All<["expand", "expand_as"]>.Of>;
def : SizeRule<"View", All<["view", "view_as"]>.Of>;
def : SizeRule<"UnsafeView", All<["_unsafe_view"]>.Of>;
def : SizeRule<"Reshape", All<["reshape"]>.Of>;
def : SizeRule<"Flatten", All<["flatten"]>.Of>;
def : SizeRule<"Unflatten", All<["unflatten"]>.Of>;
def : SizeRule<"ViewAsComplex", All<["view_as_complex"]>.Of>;
def : SizeRule<"ViewAsReal", All<["view_as_real"]>.Of>;

defvar wholeViews = One<["reshape", "flatten.using_ints", "unflatten.int",
                         "view_as", "expand_as"]>.Of;
def : WholeView<wholeViews>;

// As the first operand. (Overloads of these names that have an expression over
// each element are pointwise.)
def : SizeRule<"Same", All<["_softmax", "softmax", "log_softmax",
                            "_log_softmax", "_safe_softmax", "clone",
                            "contiguous", "_to_copy", "to", "dropout",
                            "native_dropout", "cumsum", "cumprod", "flip",
                            "roll", "sort", "argsort", "tril", "triu",
                            "zeros_like", "ones_like", "full_like",
                            "empty_like", "rand_like", "randn_like",
                            "randint_like", "_standard_gamma",
                            "_sample_dirichlet", "poisson", "bernoulli",
                            "scatter", "scatter_add", "scatter_reduce",
                            "index_fill", "index_put", "fill", "zero", "normal",
                            "uniform", "exponential", "logcumsumexp", "cummax",
                            "cummin", "bucketize", "renorm", "put",
                            "index_reduce"]>.Of>;
def : SizeRule<"Reduction", All<["median", "nanmedian", "mode", "kthvalue", "sum",
                                 "mean", "prod", "amax", "amin", "max", "min",
                                 "all", "any", "argmax", "argmin", "logsumexp",
                                 "var", "std", "var_mean", "std_mean", "norm",
                                 "nansum", "linalg_vector_norm", "_is_all_true",
                                 "_is_any_true", "aminmax"]>.Of>;
// Also special functions that a library computes.
def : SizeRule<"Pointwise", All<["_prelu_kernel", "where", "copy", "masked_fill",
                                 "lerp", "logit", "logaddexp", "logaddexp2",
                                 "lgamma", "digamma", "polygamma", "erfinv",
                                 "i0", "special_i0e", "special_i1",
                                 "special_i1e", "special_entr", "special_ndtri",
                                 "special_log_ndtr", "special_erfcx", "igamma",
                                 "igammac", "frac", "xlogy", "special_xlog1py",
                                 "sinc", "polar", "complex", "angle", "sgn",
                                 "nan_to_num", "isposinf", "isneginf", "ldexp",
                                 "nextafter", "round", "special_zeta",
                                 "special_airy_ai", "special_bessel_j0",
                                 "special_bessel_j1", "special_bessel_y0",
                                 "special_bessel_y1",
                                 "special_chebyshev_polynomial_t",
                                 "special_chebyshev_polynomial_u",
                                 "special_hermite_polynomial_h",
                                 "special_hermite_polynomial_he",
                                 "special_laguerre_polynomial_l",
                                 "special_legendre_polynomial_p",
                                 "special_modified_bessel_i0",
                                 "special_modified_bessel_i1",
                                 "special_modified_bessel_k0",
                                 "special_modified_bessel_k1",
                                 "special_scaled_modified_bessel_k0",
                                 "special_scaled_modified_bessel_k1",
                                 "special_spherical_bessel_j0"]>.Of>;
def : SizeRule<"Cross", All<["linalg_cross"]>.Of>;
def : SizeRule<"MaskedScatter", All<["masked_scatter"]>.Of>;
def : SizeRule<"IsIn", All<["isin"]>.Of>;
def : SizeRule<"LogSigmoid", All<["log_sigmoid_forward"]>.Of>;
def : SizeRule<"Searched", All<["searchsorted"]>.Of>;
def : SizeRule<"Rot90", All<["rot90"]>.Of>;
def : SizeRule<"Topk", All<["topk"]>.Of>;
def : SizeRule<"Histogram", All<["histc"]>.Of>;

def : SizeRule<"Loss", All<["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
                            "binary_cross_entropy",
                            "binary_cross_entropy_with_logits",
                            "soft_margin_loss"]>.Of>;
def : SizeRule<"MarginLoss", All<["multi_margin_loss",
                                  "multilabel_margin_loss_forward"]>.Of>;
def : SizeRule<"NllLoss", All<["nll_loss_forward", "nll_loss2d_forward"]>.Of>;

// Matmuls and networks' operators.
def : SizeRule<"Mm", All<["mm", "bmm"]>.Of>;
def : SizeRule<"Matmul", All<["matmul"]>.Of>;
def : SizeRule<"Dot", All<["dot", "vdot"]>.Of>;
def : SizeRule<"Mv", All<["mv"]>.Of>;
def : SizeRule<"Addmm", All<["addmm"]>.Of>;
def : SizeRule<"Addmv", All<["addmv"]>.Of>;
def : SizeRule<"Baddbmm", All<["baddbmm"]>.Of>;
def : SizeRule<"GroupedProduct", All<["_grouped_mm"]>.Of>;
def : SizeRule<"Linear", All<["linear"]>.Of>;
def : SizeRule<"Attention", All<["scaled_dot_product_attention"]>.Of>;
def : SizeRule<"BatchAlone", All<["channel_shuffle"]>.Of>;
def : SizeRule<"ImageColumns", All<["im2col"]>.Of>;
def : SizeRule<"ColumnImages", All<["col2im"]>.Of>;
def : SizeRule<"Margins", All<["reflection_pad1d", "reflection_pad2d",
                               "reflection_pad3d", "replication_pad1d",
                               "replication_pad2d", "replication_pad3d",
                               "_pad_circular"]>.Of>;
def : SizeRule<"Squares", All<["linalg_inv", "linalg_inv_ex", "linalg_cholesky",
                               "linalg_cholesky_ex", "cholesky_inverse",
                               "linalg_lu_factor_ex", "_linalg_det",
                               "_linalg_slogdet", "_linalg_eigh",
                               "linalg_matrix_exp"]>.Of>;
def : SizeRule<"Solve", All<["linalg_solve", "_linalg_solve_ex"]>.Of>;
def : SizeRule<"SolveTriangular", All<["linalg_solve_triangular"]>.Of>;
def : SizeRule<"CholeskySolve", All<["cholesky_solve"]>.Of>;
def : SizeRule<"Qr", All<["linalg_qr"]>.Of>;
def : SizeRule<"SingularValues", All<["_linalg_svd"]>.Of>;
def : SizeRule<"Pairs", All<["_pdist_forward"]>.Of>;
def : SizeRule<"Transform", All<["_fft_r2c", "_fft_c2c", "_fft_c2r"]>.Of>;
def : SizeRule<"GridSampler", All<["grid_sampler_2d", "grid_sampler_3d"]>.Of>;
def : SizeRule<"RnnLayer", All<["mkldnn_rnn_layer"]>.Of>;
def : SizeRule<"Cell", One<["_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"]>.Of>;
def : SizeRule<"Recurrence", One<["lstm.input", "gru.input", "rnn_tanh.input",
                                  "rnn_relu.input"]>.Of>;
def : SizeRule<"NativeAttention", All<["_native_multi_head_attention"]>.Of>;
def : SizeRule<"EncoderLayer", All<["_transformer_encoder_layer_fwd"]>.Of>;
def : SizeRule<"EmbeddingBag", All<["_embedding_bag"]>.Of>;
def : SizeRule<"Distances", All<["_cdist_forward"]>.Of>;
def : SizeRule<"Glu", All<["glu"]>.Of>;
def : SizeRule<"NormalisedLast", All<["layer_norm", "rms_norm",
                                      "_fused_rms_norm"]>.Of>;
def : SizeRule<"BatchNorm", All<["batch_norm"]>.Of>;
def : SizeRule<"BatchNormTraining", All<["_native_batch_norm_legit"]>.Of>;
def : SizeRule<"NormalisedChannels", All<["group_norm", "instance_norm"]>.Of>;
def : SizeRule<"Embedding", All<["embedding"]>.Of>;
def : SizeRule<"OneHot", All<["one_hot"]>.Of>;

// Windows, resizing.
def : SizeRule<"Convolution", All<["convolution", "_convolution", "conv1d",
                                   "conv2d", "conv3d",
                                   "mkldnn_convolution"]>.Of>;
def : SizeRule<"ConvTranspose", All<["conv_transpose1d", "conv_transpose2d",
                                     "conv_transpose3d"]>.Of>;
def : SizeRule<"Pool1d", All<["max_pool1d", "avg_pool1d"]>.Of>;
def : SizeRule<"Pool2d", All<["max_pool2d", "max_pool2d_with_indices",
                              "avg_pool2d"]>.Of>;
def : SizeRule<"Pool3d", All<["avg_pool3d", "max_pool3d",
                              "max_pool3d_with_indices"]>.Of>;
def : SizeRule<"Adaptive1d", All<["adaptive_avg_pool1d"]>.Of>;
def : SizeRule<"Adaptive2d", All<["adaptive_avg_pool2d", "_adaptive_avg_pool2d",
                                  "adaptive_max_pool2d"]>.Of>;
def : SizeRule<"Adaptive3d", All<["adaptive_avg_pool3d",
                                  "adaptive_max_pool3d"]>.Of>;
def : SizeRule<"Resized1d", All<["upsample_nearest1d",
                                 "_upsample_nearest_exact1d",
                                 "upsample_linear1d"]>.Of>;
def : SizeRule<"Resized2d", All<["upsample_nearest2d",
                                 "_upsample_nearest_exact2d",
                                 "upsample_bilinear2d",
                                 "upsample_bicubic2d"]>.Of>;
def : SizeRule<"Resized3d", All<["upsample_nearest3d",
                                 "upsample_trilinear3d"]>.Of>;
def : SizeRule<"PixelShuffle", All<["pixel_shuffle"]>.Of>;
def : SizeRule<"PixelUnshuffle", All<["pixel_unshuffle"]>.Of>;
def : SizeRule<"Unfold", All<["unfold"]>.Of>;
def : SizeRule<"Diagonal", All<["diagonal"]>.Of>;

// Joins, indexed reads, new tensors.
def : SizeRule<"Cat", All<["cat", "concat"]>.Of>;
def : SizeRule<"Stack", All<["stack"]>.Of>;
def : SizeRule<"Repeat", All<["repeat"]>.Of>;
def : SizeRule<"Pad", All<["constant_pad_nd"]>.Of>;
def : SizeRule<"Gather", All<["gather"]>.Of>;
def : SizeRule<"Take", All<["take"]>.Of>;
def : SizeRule<"IndexSelect", All<["index_select"]>.Of>;
def : SizeRule<"IndexedRows", All<["index_add", "index_copy"]>.Of>;
def : SizeRule<"Index", All<["index"]>.Of>;
def : SizeRule<"Factory", All<["zeros", "ones", "full", "empty", "rand", "randn",
                               "randint", "new_zeros", "new_ones", "new_full",
                               "new_empty"]>.Of>;
def : SizeRule<"Randperm", All<["randperm"]>.Of>;
def : SizeRule<"Multinomial", All<["multinomial"]>.Of>;
def : SizeRule<"Arange", All<["arange"]>.Of>;
def : SizeRule<"Linspace", All<["linspace"]>.Of>;
def : SizeRule<"Eye", All<["eye"]>.Of>;
def : SizeRule<"Einsum", All<["einsum"]>.Of>;
def : SizeRule<"DiagEmbed", All<["diag_embed"]>.Of>;

//===----------------------------------------------------------------------===//
// Capture: composites
//===----------------------------------------------------------------------===//

def : KeptWhole<One<["linear", "layer_norm", "group_norm", "batch_norm",
                     "scaled_dot_product_attention", "conv1d", "conv2d",
                     "conv3d", "matmul", "softmax.int", "log_softmax.int",
                     "max_pool2d", "rms_norm"]>.Of>;
// Fills its result behind the dispatcher's back.
def : TransposesWeight<One<["linear"]>.Of>;
def : SavesViews<"Linear", One<["linear"]>.Of>;
def : SavesViews<"Matmul", One<["matmul"]>.Of>;
def : KeptWhole<One<["max_pool1d"]>.Of>;
// Restride their results in place.
def : KeptWhole<One<["adaptive_avg_pool2d", "adaptive_avg_pool3d"]>.Of>;
// Check the factorisation's outcome and raise.
def : KeptWhole<One<["linalg_inv", "linalg_solve", "linalg_cholesky",
                     "linalg_lu_factor", "linalg_ldl_factor", "inverse"]>.Of>;
// cuDNN's, of all weights in one storage.
def : KeptOnDevice<One<["lstm.input", "gru.input", "rnn_tanh.input",
                        "rnn_relu.input"]>.Of>;
// LSTMs are oneDNN's, a call for each layer.
def : KeptWithLengths<One<["gru.input", "rnn_tanh.input", "rnn_relu.input"]>.Of>;
def : KeptWithSizes<wholeViews # One<["_pad_circular"]>.Of>;

// The parts of these are given nothing but what the composite was given. Views
// that widen or split dimensions by numbers are noticed all the same, and rules
// keep the sizes that windows and transforms go over. (`max` and `min`: those of
// two tensors.)
def : PartSizes<"Transparent",
    All<["mT", "mH", "__and__", "__or__", "__xor__", "_convolution_mode",
         "_to_cpu", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa",
         "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
         "_upsample_nearest_exact3d", "absolute", "adaptive_avg_pool1d",
         "adaptive_max_pool1d", "adjoint", "alpha_dropout", "argsort",
         "atleast_1d", "atleast_2d", "avg_pool1d", "batch_norm",
         "_batch_norm_impl_index", "broadcast_to", "can_cast", "cdist", "clip",
         "clip_", "concat", "concatenate", "contiguous", "conv1d", "conv2d",
         "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
         "cosine_embedding_loss", "cudnn_is_acceptable", "divide", "dropout",
         "dropout_", "embedding_bag", "feature_dropout", "flipud", "fliplr",
         "float_power", "grid_sampler", "gru_cell", "hinge_embedding_loss",
         "hstack", "is_complex", "is_floating_point", "isfinite", "kl_div",
         "l1_loss", "linalg_det", "linalg_eigh", "linalg_eigvalsh",
         "linalg_lu_factor", "linalg_matrix_norm", "linalg_norm",
         "linalg_slogdet", "linalg_svd", "linalg_svdvals", "log_sigmoid",
         "log_softmax", "logdet", "lstm_cell",
         "margin_ranking_loss", "matrix_H", "max", "max_pool1d",
         "max_pool1d_with_indices", "max_pool3d", "min", "moveaxis", "movedim",
         "multiply", "narrow", "negative", "nll_loss", "nll_loss2d", "numpy_T",
         "pad", "pairwise_distance", "pdist", "poisson_nll_loss", "prelu",
         "promote_types", "ravel", "relu6", "relu6_", "result_type",
         "rnn_relu_cell", "rnn_tanh_cell", "rrelu", "rrelu_", "selu", "selu_",
         "slogdet", "softmax", "special_digamma", "special_erf", "special_erfc",
         "special_erfinv", "special_exp2", "special_expit", "special_expm1",
         "special_gammaln", "special_i0", "special_log1p",
         "special_log_softmax", "special_logit", "special_logsumexp",
         "special_ndtr", "special_psi", "special_sinc", "special_softmax",
         "special_xlogy", "split", "square", "std", "std_mean", "subtract",
         "swapaxes", "swapdims", "tile", "to", "trapezoid", "trapz", "triplet_margin_loss",
         "true_divide", "type_as", "upsample_bicubic2d", "upsample_bilinear2d",
         "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
         "upsample_nearest3d", "upsample_trilinear3d", "var", "var_mean",
         "vstack", "where"]>.Of>;
// Those of a packed sequence follow how long its parts are.
def : PartSizes<"Transparent", One<["lstm.input", "gru.input", "rnn_tanh.input",
                                    "rnn_relu.input"]>.Of>;
def : PartSizes<"Einsum", One<["einsum"]>.Of>;
def : PartSizes<"Transform",
    All<["fft_fft", "fft_fft2", "fft_fftn", "fft_ifft", "fft_ifft2",
         "fft_ifftn", "fft_irfft", "fft_rfft", "fft_rfft2", "fft_rfftn"]>.Of>;
def : PartSizes<"NllLoss", One<["nll_loss_nd"]>.Of>;
def : PartSizes<"CrossEntropy", One<["cross_entropy_loss"]>.Of>;
def : HandsOn<"ignore_index", One<["cross_entropy_loss", "nll_loss_nd", "nll_loss",
                                   "nll_loss2d", "nll_loss_forward",
                                   "nll_loss2d_forward"]>.Of>;
def : HandsOn<"momentum", One<["batch_norm", "_batch_norm_impl_index",
                               "_native_batch_norm_legit",
                               "_native_batch_norm_legit.no_stats"]>.Of>;
def : PartSizes<"Chunk", One<["chunk", "unsafe_chunk"]>.Of>;
def : PartSizes<"BroadcastTensors", One<["broadcast_tensors",
                                         "cosine_similarity"]>.Of>;
def : PartSizes<"Meshgrid", One<["meshgrid", "meshgrid.indexing"]>.Of>;
def : PartSizes<"Outer", One<["outer", "ger"]>.Of>;
def : PartSizes<"RepeatInterleave", One<["repeat_interleave.self_int"]>.Of>;
def : PartSizes<"Cross", One<["cross"]>.Of>;
def : PartSizes<"Diff", One<["diff"]>.Of>;
def : PartSizes<"InstanceNorm", One<["instance_norm"]>.Of>;
def : PartSizes<"Tensordot", One<["tensordot"]>.Of>;
def : PartSizes<"Attention", One<["scaled_dot_product_attention",
                                  "_scaled_dot_product_attention_math"]>.Of>;

def : Resizes<All<["_upsample_bicubic2d_aa", "_upsample_bicubic2d_aa_backward",
                   "_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa_backward",
                   "_upsample_nearest_exact1d",
                   "_upsample_nearest_exact1d_backward",
                   "_upsample_nearest_exact2d",
                   "_upsample_nearest_exact2d_backward",
                   "_upsample_nearest_exact3d",
                   "_upsample_nearest_exact3d_backward", "upsample_bicubic2d",
                   "upsample_bicubic2d_backward", "upsample_bilinear2d",
                   "upsample_bilinear2d_backward", "upsample_linear1d",
                   "upsample_linear1d_backward", "upsample_nearest1d",
                   "upsample_nearest1d_backward", "upsample_nearest2d",
                   "upsample_nearest2d_backward", "upsample_nearest3d",
                   "upsample_nearest3d_backward", "upsample_trilinear3d",
                   "upsample_trilinear3d_backward"]>.Of>;
defvar resizes = ["_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa",
                  "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
                  "_upsample_nearest_exact3d", "upsample_bicubic2d",
                  "upsample_bilinear2d", "upsample_linear1d",
                  "upsample_nearest1d", "upsample_nearest2d",
                  "upsample_nearest3d", "upsample_trilinear3d"];
def : HandsOnSizes<One<!foreach(name, resizes, name # ".vec")>.Of>;
def : TakesSizes<One<resizes>.Of>;
def : TakesSizesAsPart<All<["expand", "view", "reshape", "_unsafe_view", "repeat",
                            "unflatten"]>.Of>;

//===----------------------------------------------------------------------===//
// Capture: what an operator asks, takes and changes
//===----------------------------------------------------------------------===//

// The number is the first factor of eager's loop.
def : RoundsNumbers<One<["mul_.Scalar", "multiply_.Scalar"]>.Of>;

// As ATen's own loops over lists do (ForeachOpsKernels.cpp).
def : EachTensor<"clamp_min", All<["_foreach_maximum"]>.Of>;
def : EachTensor<"clamp_min_", All<["_foreach_maximum_"]>.Of>;
def : EachTensor<"clamp_max", All<["_foreach_minimum"]>.Of>;
def : EachTensor<"clamp_max_", All<["_foreach_minimum_"]>.Of>;
def : EachTensor<"linalg_vector_norm", All<["_foreach_norm"]>.Of>;
def : EachTensor<"linalg__powsum", All<["_foreach_powsum"]>.Of>;
def : AsksMetadata<One<["is_same_size", "is_set_to", "is_pinned",
                        "_fused_sdp_choice", "_use_cudnn_ctc_loss",
                        "_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss",
                        "_use_miopen_ctc_loss.Tensor",
                        "_has_same_storage_numel"]>.Of>;
def : BatchStatistics<One<["batch_norm", "native_batch_norm",
                           "_batch_norm_impl_index", "cudnn_batch_norm"]>.Of>;
def : FunctionalForm<"aten::_native_batch_norm_legit_functional",
                     One<["_native_batch_norm_legit"]>.Of>;

def : PartWrite<"Rows", One<["index_copy_", "index_add_", "index_fill_.int_Scalar",
                             "index_fill_.int_Tensor"]>.Of>;
def : PartWrite<"Elements", One<["scatter_.src", "scatter_.value",
                                 "scatter_.reduce", "scatter_.value_reduce",
                                 "scatter_add_", "scatter_reduce_.two"]>.Of>;
def : PartWrite<"Indexed", One<["index_put_"]>.Of>;

defvar indexed = All<["index", "index_put", "index_put_"]>.Of;
def : TakesIndexLists<indexed>;
def : ReadsAtIndices<All<["index"]>.Of>;

defvar withNumbers = ["add", "sub", "mul", "div", "remainder", "pow", "lt", "le",
                      "gt", "ge", "eq", "ne", "clamp", "clamp_min", "clamp_max",
                      "addcmul", "addcdiv", "lerp", "fill", "masked_fill",
                      "leaky_relu", "fmod", "floor_divide"];
def : TakesNumbers<All<withNumbers>.Of>;
def : TakesNumbers<All<!foreach(name, withNumbers, name # "_")>.Of>;
def : TakesNumbers<All<["rsub", "full", "full_like"]>.Of>;
def : TakesNumbers<["prims::add", "prims::div", "prims::eq", "prims::fill",
                    "prims::fmod", "prims::full", "prims::full_like",
                    "prims::ge", "prims::gt", "prims::le", "prims::lt",
                    "prims::mul", "prims::ne", "prims::pow",
                    "prims::remainder", "prims::sub"]>;
// A negative power of an integer raises.
def : TakesFloatsOnly<All<["pow", "pow_"]>.Of # ["prims::pow"]>;
def : TakesFloats<All<["bernoulli", "bernoulli_", "normal", "normal_",
                       "uniform_", "exponential_"]>.Of>;
def : TakesSizes<All<["view", "reshape", "expand", "repeat", "zeros", "ones",
                      "empty", "full", "rand", "randn", "randint", "new_zeros",
                      "new_ones", "new_full", "new_empty", "unflatten",
                      "split_with_sizes", "constant_pad_nd"]>.Of>;
def : TakesSizes<["prims::empty", "prims::full", "prims::reshape"]>;
def : TakesInts<All<["arange", "topk", "split", "one_hot", "linspace", "eye",
                     "randint", "randperm", "multinomial"]>.Of>;
def : PythonName<"sub", All<["rsub"]>.Of>;
def : PythonName<"split", All<["split_with_sizes"]>.Of>;
def : PythonName<"pad", All<["constant_pad_nd"]>.Of>;

//===----------------------------------------------------------------------===//
// Capture: TorchScript's instructions
//===----------------------------------------------------------------------===//

def : StopsScript<["prim::tolist", "prim::PythonOp", "prim::Print", "prim::fork",
                   "prim::forkClosure", "prim::rpc_async", "prim::rpc_sync",
                   "prim::rpc_remote", "prim::SetAttr", "prim::RaiseException",
                   "prim::BroadcastMKLDNNTensors", "prim::CallMethod",
                   "prim::data", "prim::Enter", "aten::manual_seed",
                   "aten::wait", "aten::warn"]>;
def : PlainInScript<["prim::Constant", "prim::If", "prim::Loop",
                     "prim::ListConstruct", "prim::ListUnpack",
                     "prim::TupleConstruct", "prim::TupleUnpack",
                     "prim::TupleIndex", "prim::NumToTensor", "prim::device",
                     "prim::dtype", "prim::layout", "prim::is_cuda",
                     "prim::max", "prim::min", "prim::abs",
                     "prim::unchecked_cast", "prim::Return", "prim::profile",
                     "prim::Uninitialized", "aten::tensor", "aten::as_tensor",
                     "aten::len", "aten::__getitem__", "aten::__is__",
                     "aten::__isnot__", "aten::__not__", "aten::__and__",
                     "aten::__or__", "aten::append", "aten::list", "aten::dim",
                     "aten::numel", "aten::neg", "aten::floordiv",
                     "aten::__contains__"]>;
def : RunsApartInScript<["prim::DifferentiableGraph", "prim::RequiresGradCheck",
                         "prim::CallFunction"]>;

//===----------------------------------------------------------------------===//
// CUDA graphs
//===----------------------------------------------------------------------===//

def : WaitsForDevice<All<["_local_scalar_dense", "item", "is_nonzero", "equal",
                          "allclose", "nonzero", "masked_select", "unique_dim",
                          "unique_consecutive", "_unique", "_unique2",
                          "bincount", "repeat_interleave", "multinomial",
                          "histc", "embedding_bag", "_embedding_bag",
                          "_ctc_loss", "ctc_loss", "linalg_inv_ex",
                          "linalg_eigh", "_linalg_eigh", "_linalg_svd",
                          "linalg_svd", "linalg_lstsq", "linalg_solve_ex",
                          "_linalg_solve_ex", "linalg_lu_factor_ex",
                          "linalg_cholesky_ex", "tensor_split", "combinations",
                          "cdist", "_pack_padded_sequence", "lift_fresh",
                          "scalar_tensor", "pin_memory"]>.Of>;
def : ExpandsMasks<indexed # All<["_index_put_impl", "_index_put_impl_"]>.Of>;
def : DeviceAssertion<One<["_assert_async.msg"]>.Of>;
def : OfCPULibrary<["mkl::*", "mkldnn::*"]>;

//===----------------------------------------------------------------------===//
// Random numbers: as ATen's kernels test their arguments (Dropout.cpp, RNN.cpp,
// attention.cpp)
//===----------------------------------------------------------------------===//

defvar dropouts = All<["dropout", "dropout_", "feature_dropout",
                       "feature_dropout_", "alpha_dropout", "alpha_dropout_",
                       "feature_alpha_dropout", "feature_alpha_dropout_"]>.Of;
defvar recurrences = All<["lstm", "gru", "rnn_tanh", "rnn_relu"]>.Of;
def : DrawsByProbability<"p", dropouts>;
def : Dropout<dropouts>;
def : HandsOnRate<dropouts # All<["scaled_dot_product_attention"]>.Of>;
def : DrawsByProbability<"dropout", recurrences>;
defvar attentionKernels = One<["_scaled_dot_product_flash_attention_for_cpu",
                               "_scaled_dot_product_cudnn_attention",
                               "_scaled_dot_product_efficient_attention"]>.Of
                          # ["pyjit::efficient_attention"];
defvar attentionGradients =
    One<["_scaled_dot_product_flash_attention_for_cpu_backward",
         "_scaled_dot_product_cudnn_attention_backward",
         "_scaled_dot_product_efficient_attention_backward"]>.Of
    # ["pyjit::efficient_attention_backward"];
def : DrawsByProbability<"dropout_p", All<["scaled_dot_product_attention"]>.Of
                                          # attentionKernels>;
def : DrawsByFlag<"train", dropouts # recurrences # All<["native_dropout"]>.Of>;
def : DrawsByFlag<"training", All<["rrelu_with_noise", "rrelu_with_noise_"]>.Of>;

//===----------------------------------------------------------------------===//
// Vendor libraries
//===----------------------------------------------------------------------===//

def : KeepsLayout<One<["relu", "hardswish", "hardsigmoid", "silu", "sigmoid",
                       "hardtanh", "gelu", "max_pool2d", "avg_pool2d",
                       "add.Tensor", "mul.Tensor", "adaptive_avg_pool2d",
                       "leaky_relu", "elu", "batch_norm"]>.Of>;
def : GivesChannelsLast<["mkldnn::_convolution_pointwise.*",
                         "mkldnn::_convolution_pointwise_.*"]>;

foreach name = ["relu", "hardswish", "sigmoid", "hardtanh"] in
  def : OneDNNActivation<name, ["aten::" # name]>;
def : OneDNNActivation<"swish", ["aten::silu"]>;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

def : Named<attentionKernels>;
def : Named<attentionGradients>;
def : Named<One<["rrelu_with_noise", "rrelu_with_noise_", "pad",
                 "fill_diagonal_", "diagonal",
                 "_native_batch_norm_legit.no_stats",
                 "native_batch_norm_backward", "native_batch_norm",
                 "cudnn_batch_norm", "_fused_adam_", "_fused_adam_.tensor_lr",
                 "_fused_adamw_", "_fused_adamw_.tensor_lr", "_fused_sgd_",
                 "_fused_sgd_.tensor_lr",
                 "_amp_foreach_non_finite_check_and_unscale_"]>.Of>;
