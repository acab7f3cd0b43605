/** What the address of the lookup RPC is made of. */
export interface LookupSocketParts {
  /** VLLM_RPC_BASE_PATH as it is set; null when it is not (or empty). */
  readonly basePath: string | null;
  /** The system's temporary folder, which stands in for it. */
  readonly temporaryFolder: string;
  /** `lookup_rpc_port` as Python's str() prints it: any text, not only a number. */
  readonly port: string;
  readonly hostName: string;
  readonly dataParallelRank: number;
}

/**
 * vLLM's address of the socket between a scheduler process and the first worker. Both sides make it from their own settings, so
 * one letter of difference and they never meet.
 */
export function lookupSocketAddress(parts: LookupSocketParts): string {
  const { basePath, temporaryFolder, port, hostName, dataParallelRank } = parts;
  const folder = basePath ?? temporaryFolder;
  return `ipc://${folder}/lookup_rpc_port_${port}_host_${hostName}_dp_rank${dataParallelRank}`;
}
